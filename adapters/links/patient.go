package links

import (
	"io"
	"net/http"
	"time"
)

const (
	// writeTime is how long a client may take to receive a part.
	writeTime = time.Minute
	// writePart is how much of a file is one part, in bytes: who receives it in writeTime has 4 KiB a second.
	writePart = 256 << 10
)

// patientWriter lets nobody keep a connection by receiving nothing, however long a file takes that is received.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// patient returns a writer to w, and what to call at its end.
func patient(w http.ResponseWriter) (_ http.ResponseWriter, end func()) {
	p := &patientWriter{w, http.NewResponseController(w)}
	return p, p.end
}

// end sends what is left, and takes the deadline back: the connection may serve on.
func (w *patientWriter) end() {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTime))
	_ = w.control.Flush()
	_ = w.control.SetWriteDeadline(time.Time{})
}

// Write implements io.Writer.
func (w *patientWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTime))
	return w.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that the system may send a file without our reading it.
func (w *patientWriter) ReadFrom(from io.Reader) (total int64, err error) {
	limited, isLimited := from.(*io.LimitedReader)
	if !isLimited {
		return io.Copy(struct{ io.Writer }{w}, from)
	}
	for limited.N > 0 {
		part := &io.LimitedReader{R: limited.R, N: min(limited.N, writePart)}
		_ = w.control.SetWriteDeadline(time.Now().Add(writeTime))
		n, err := io.Copy(w.ResponseWriter, part)
		total, limited.N = total+n, limited.N-n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

// Unwrap lets http.ResponseController find the connection.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
