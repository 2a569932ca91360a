package keep

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// bytecodeFolder is where Python looks for the bytecode of the modules beside it.
const bytecodeFolder = "__pycache__"

// AddBytecode adds the bytecode in the folder source to the copy target, which programs may be reading: each
// bytecode folder comes whole or not at all, and one that is there stays. Nothing else of source is taken. What was
// copied before an error stays, and is told with it.
// When it returns, what was added outlives the machine's crash.
func AddBytecode(source, target string, l Limits) (Kept, error) {
	from, err := os.OpenFile(source, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0) //nolint:gosec // the host names it
	if err != nil {
		return Kept{}, failed(err)
	}
	defer from.Close()                                                              //nolint:errcheck // it was only read
	to, err := os.OpenFile(target, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0) //nolint:gosec // as above
	if err != nil {
		return Kept{}, failed(err)
	}
	defer to.Close() //nolint:errcheck // it is a folder
	a := adder{copier: copier{limits: l}, target: target}
	if err := a.folder(from, to, "", 0); err != nil {
		return a.kept, err
	}
	return a.kept, failed(unix.Syncfs(int(to.Fd())))
}

// adder goes through two trees side by side, and only where both have a folder.
type adder struct {
	copier
	target string
}

func (a *adder) folder(from, to *os.File, within string, depth int) error {
	for {
		names, err := from.Readdirnames(atOnce)
		for _, name := range names {
			if err := a.entry(from, to, name, path.Join(within, name), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return failed(err)
		}
	}
}

func (a *adder) entry(from, to *os.File, name, within string, depth int) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	if a.kept.Entries++; a.kept.Entries > a.limits.Entries || depth == maxDepth || len(within) > maxPath {
		return refused("more folders of bytecode than there may be, such as %.200q", within)
	}
	source, err := open(from, name, flags, 0)
	if err != nil {
		return unreadable(within, err)
	}
	defer source.Close() //nolint:errcheck // it was only read
	if name == bytecodeFolder {
		return a.bytecode(source, to, within, depth)
	}
	target, err := open(to, name, flags, 0)
	if err != nil {
		return unreadable(within, err)
	}
	defer target.Close() //nolint:errcheck // it is a folder
	return a.folder(source, target, within, depth+1)
}

// bytecode copies a folder beside where it is to be, and gives it its name.
func (a *adder) bytecode(source, to *os.File, within string, depth int) error {
	var info unix.Stat_t
	if err := unix.Fstatat(int(to.Fd()), bytecodeFolder, &info, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
		return failed(err)
	}
	if err := to.Chmod(0o755); err != nil {
		return failed(err)
	}
	err := a.fillBeside(source, to, within, depth)
	return errors.Join(err, failed(to.Chmod(0o555)))
}

func (a *adder) fillBeside(source, to *os.File, within string, depth int) error {
	const part = bytecodeFolder + unfinished
	remove := func() error { return failed(drop(path.Join(a.target, path.Dir(within), part))) }
	if err := remove(); err != nil { // of a courier that was killed
		return err
	}
	if err := unix.Mkdirat(int(to.Fd()), part, 0o700); err != nil {
		return failed(err)
	}
	made, err := open(to, part, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return failed(err)
	}
	defer made.Close() //nolint:errcheck // it is a folder
	if err := a.copier.folder(source, made, within, depth+1); err != nil {
		return errors.Join(err, remove())
	}
	return failed(unix.Renameat(int(to.Fd()), part, int(to.Fd()), bytecodeFolder))
}
