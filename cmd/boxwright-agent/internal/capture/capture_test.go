package capture_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/boxwright/boxwright/cmd/boxwright-agent/internal/capture"
)

// TestAgainstTheWhole compares with what slicing the whole output gives, for random sizes and pieces.
func TestAgainstTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		limits := capture.Limits{Head: random.Int64N(40), Tail: random.Int64N(40), Spill: random.Int64N(120)}
		c := capture.New(limits, nil)
		var whole []byte
		for range random.IntN(12) {
			piece := make([]byte, random.IntN(50))
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			if n, err := c.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
			whole = append(whole, piece...)
		}
		check(t, c, limits, whole)
	}
}

func check(t *testing.T, c *capture.Capture, limits capture.Limits, whole []byte) {
	t.Helper()
	head, tail := whole, []byte{}
	if total := int64(len(whole)); total > limits.Head+limits.Tail {
		head, tail = whole[:limits.Head], whole[total-limits.Tail:]
	}
	got := c.Result()
	if !bytes.Equal(got.Head, head) || !bytes.Equal(got.Tail, tail) || got.Total != int64(len(whole)) {
		t.Fatalf("%+v of %d bytes: head %q want %q, tail %q want %q", limits, len(whole), got.Head, head, got.Tail, tail)
	}
	spilled := whole[:min(limits.Spill, int64(len(whole)))]
	if got.Spilled != int64(len(spilled)) {
		t.Fatalf("spilled %d, want %d", got.Spilled, len(spilled))
	}
	if read := readAll(t, c); !bytes.Equal(read, spilled) {
		t.Fatalf("read back %q, want %q", read, spilled)
	}
	if c.Forget() != got.Spilled || len(readAll(t, c)) != 0 {
		t.Fatal("Forget left something")
	}
}

func readAll(t *testing.T, c *capture.Capture) []byte {
	t.Helper()
	var all []byte
	for piece := make([]byte, 7); ; {
		n, err := c.ReadAt(piece, int64(len(all)))
		all = append(all, piece[:n]...)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLiveIsBounded(t *testing.T) {
	live := capture.NewLive(10)
	c := capture.New(capture.Limits{}, live)
	for range 100 {
		_, _ = c.Write([]byte("0123456"))
	}
	if got := live.Take(); string(got) != "0123456012" {
		t.Errorf("took %q", got)
	}
	if got := live.Take(); len(got) != 0 {
		t.Errorf("took %q again", got)
	}
}
