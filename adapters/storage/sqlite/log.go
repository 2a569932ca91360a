package sqlite

import "context"

// SQLite appends changes to a log, and now and then moves them from there into the file, which waits for the
// disk. By itself it does that in the call that fills the log; here it is done beside the calls. Only when
// that cannot keep up does a call do it.
const (
	moveAfter  = 8 << 20  // bytes in the log
	changeCost = 24 << 10 // about what a change writes besides its documents: the pages of indexes
	lastResort = 8000     // pages of 4 KiB in the log
)

// changed counts what a change has written, and has the log moved when it is time.
func (d *DB) changed(documents int) {
	if d.logged.Add(int64(documents)+changeCost) < moveAfter || !d.moving.TryLock() {
		return
	}
	d.logged.Store(0)
	go func() {
		defer d.moving.Unlock()
		// If it fails the next one does it; that the disk is in trouble is told by calls.
		_, _ = d.read.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
	}()
}
