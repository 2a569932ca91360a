package main

import (
	"runtime"
	"sync"
)

const (
	// serveThreads and dialThreads are more than the agent, and a stream to it, have ever been seen to need.
	serveThreads = 16
	dialThreads  = 8
)

// reserveThreads has the runtime start n threads, which it keeps. It starts one whenever the others wait in
// the kernel, and ends the process if it cannot: the code would only have to take all processes of the box.
func reserveThreads(n int) {
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread() // so that the next goroutine needs another
			defer runtime.UnlockOSThread()
			started.Done()
			started.Wait()
		})
	}
	ended.Wait()
}
