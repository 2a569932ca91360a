package web

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/boxwright/boxwright/core"
)

// certificate is read again when its files change, so that it can be renewed while the server runs.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]fileStamp
}

type fileStamp struct {
	changed time.Time
	size    int64
}

// newTLS returns what TLS needs, or nil if there is none.
func (l Listen) newTLS(log *slog.Logger) (*tls.Config, error) {
	if l.CertFile == "" {
		return nil, nil //nolint:nilnil // no TLS is not an error
	}
	c := &certificate{certFile: l.CertFile, keyFile: l.KeyFile, log: log}
	if err := c.load(c.stampNow()); err != nil {
		return nil, core.Errorf(core.ErrInvalid, "http.tls_cert and http.tls_key cannot be used: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

// get is asked at each handshake. A renewal that is not whole yet leaves the certificate that there was.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.stampNow(); now != c.stamp {
		if err := c.load(now); err != nil {
			c.log.Warn("the changed TLS certificate cannot be used; the one before is", "error", err)
			c.stamp = now
		} else {
			c.log.Info("the TLS certificate was read again")
		}
	}
	return c.current, nil
}

func (c *certificate) load(stamp [2]fileStamp) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current, c.stamp = &pair, stamp
	return nil
}

func (c *certificate) stampNow() (stamps [2]fileStamp) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = fileStamp{info.ModTime(), info.Size()}
		}
	}
	return stamps
}
