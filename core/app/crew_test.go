package app

import (
	"context"
	"log/slog"
	"testing"
)

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// TestCrew: who waits for the end of all work learns it, whatever begins at that moment.
func TestCrew(t *testing.T) {
	c := crew{log: slog.New(slog.DiscardHandler)}
	if !over(c.idle()) {
		t.Error("nobody works, and it is not idle")
	}
	c.join()
	c.join()
	first, second := c.idle(), c.idle()
	c.leave()
	if over(first) {
		t.Error("it is idle while somebody works")
	}
	c.leave()
	c.join() // before anybody who waited has seen that
	if !over(first) || !over(second) || over(c.idle()) {
		t.Errorf("its end is seen: %v and %v; it is idle again: %v", over(first), over(second), over(c.idle()))
	}
	c.leave()
	c.do("failed", func() { panic("a fault") })
	<-c.idle()
}

// TestNothingBeginsAfterTheEnd: work that comes while the service closes is over before it begins.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	closing, stop := context.WithCancel(t.Context())
	s := &Service{boxes: newBoxes(Ports{Log: slog.New(slog.DiscardHandler)}), closing: closing, close: stop}
	working, release := s.whileOpen(t.Context())
	if working.Err() != nil || over(s.boxes.work.idle()) {
		t.Error("it does not begin")
	}
	release()
	s.close()
	for range 100 {
		working, release = s.whileOpen(t.Context())
		if working.Err() == nil {
			t.Fatal("it begins")
		}
		release()
	}
	<-s.boxes.work.idle()
}
