package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// refRecord is what a name means at present.
type refRecord struct {
	Ref      string `json:"ref"`
	Digest   string `json:"digest"`
	Platform string `json:"platform"`
	Source   string `json:"source"` // the archive as it was; "" is a registry
}

func (b *Backend) refFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return b.folders.ref(hex.EncodeToString(sum[:]))
}

// readRef returns what a name means, if that is still here.
func (b *Backend) readRef(name string) (refRecord, error) {
	var rec refRecord
	if err := readJSON(b.refFile(name), &rec); err != nil {
		return rec, err
	}
	_, err := b.readImage(name, rec.Digest)
	return rec, err
}

// writeRef keeps what a name means. Whoever collects images must not take it for what it meant before.
func (b *Backend) writeRef(ctx context.Context, rec refRecord) error {
	unlock, err := lock(ctx, b.folders.cache)
	if err != nil {
		return err
	}
	defer unlock()
	return writeJSON(b.refFile(rec.Ref), rec)
}
