package guest

import "github.com/boxwright/boxwright/core"

// pump hands output to a sink that may be slow. It is lossy, so that neither the program nor the stream
// waits for the sink.
type pump struct {
	chunks chan piece
	done   chan struct{}
	quit   chan struct{}
}

type piece struct {
	stream core.Stream
	data   []byte
}

// newPump starts one; sink may be nil.
func newPump(sink func(core.Stream, []byte)) *pump {
	p := &pump{chunks: make(chan piece, 64), done: make(chan struct{}), quit: make(chan struct{})}
	go func() {
		defer close(p.done)
		for {
			select {
			case c := <-p.chunks:
				if sink != nil {
					sink(c.stream, c.data)
				}
			case <-p.quit:
				p.rest(sink)
				return
			}
		}
	}()
	return p
}

func (p *pump) rest(sink func(core.Stream, []byte)) {
	for {
		select {
		case c := <-p.chunks:
			if sink != nil {
				sink(c.stream, c.data)
			}
		default:
			return
		}
	}
}

func (p *pump) add(stream core.Stream, data []byte) {
	if stream != core.Stdout && stream != core.Stderr || len(data) == 0 {
		return
	}
	select {
	case p.chunks <- piece{stream, data}:
	default:
	}
}

// stop returns once the sink is not called any more.
func (p *pump) stop() {
	close(p.quit)
	<-p.done
}
