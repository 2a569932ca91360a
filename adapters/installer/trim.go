package installer

import (
	"context"
	_ "embed" // a program that runs in the box
	"strconv"
	"strings"

	"github.com/boxwright/boxwright/ports/execution"
)

//go:embed measure.py
var measureProgram string

// Trims implements dependency.Installer.
func (p *Python) Trims() bool { return p.UsesCache() && p.options.MaxCache > 0 }

// Trim implements dependency.Installer. Which downloads nobody will want any more is not known, so that a cache that
// holds too much is emptied. uv does that itself: it waits for others that use the cache at this moment.
func (p *Python) Trim(ctx context.Context, guest execution.Guest) error {
	if !p.Trims() {
		return nil
	}
	j := p.newJob(guest, nil, nil)
	text, err := j.pythonFor(ctx, p.options.Timeout, measureProgram, strconv.FormatInt(p.options.MaxCache, 10), j.cacheDir()+"/uv", j.cacheDir()+"/pip")
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || size <= p.options.MaxCache {
		return nil //nolint:nilerr // a box that cannot count has nothing to trim
	}
	p.log.Info("the download cache is emptied: it has more bytes than it may have", "max", p.options.MaxCache)
	for _, argv := range [][]string{{"uv", "cache", "clean"}, {j.cachedUV(), "cache", "clean"}, {"python3", "-I", "-m", "pip", "cache", "purge"}} {
		if _, _, err := j.run(ctx, command{argv: argv, timeout: p.options.Timeout}); err != nil {
			return err
		}
	}
	return nil
}
