package gvisor

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// words keeps the first that a program says on stderr. The program may outlive the plugin: a pipe
// would break then, and a file on a disk could be filled by what a box makes the program say. This
// file is in memory and cannot grow.
type words struct{ file *os.File }

func newWords() (words, error) {
	fd, err := unix.MemfdCreate("words", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return words{}, err
	}
	file := os.NewFile(uintptr(fd), "words")
	err = file.Truncate(maxComplaint)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)
	}
	if err != nil {
		return words{}, errors.Join(err, file.Close())
	}
	return words{file}, nil
}

// text is what was said up to now.
func (w words) text() string {
	raw := make([]byte, maxComplaint)
	n, _ := w.file.ReadAt(raw, 0) // it is as long as that
	said, _, _ := bytes.Cut(raw[:n], []byte{0})
	return strings.TrimSpace(strings.ToValidUTF8(string(said), "�"))
}

func (w words) close() { _ = w.file.Close() } // the program has its own
