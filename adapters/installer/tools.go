package installer

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/boxwright/boxwright/core"
)

// findUV returns uv's path: the image's, or the cache's, where it is put if it is not there. "" means that pip
// has to do.
func (j *job) findUV(ctx context.Context) (string, error) {
	for _, uv := range j.placesOfUV() {
		if j.works(ctx, uv, "--version") {
			return uv, nil
		}
	}
	if !j.works(ctx, "python3", "-I", "-m", "pip", "--version") {
		if ctx.Err() != nil {
			return "", given(ctx, "the installation")
		}
		return "", core.Errorf(core.ErrDependency, "the image has neither uv nor pip, so nothing can be installed").
			WithHint("use an image with Python and pip, or one that has the packages already")
	}
	if j.now().UnixNano() >= j.withoutUV.Load() {
		if fetched, err := j.fetchUV(ctx); fetched || err != nil {
			return j.cachedUV(), err
		}
	}
	return "", j.mayUsePip()
}

// placesOfUV are where uv may be already.
func (j *job) placesOfUV() []string {
	if j.UsesCache() {
		return []string{"uv", j.cachedUV()}
	}
	return []string{"uv"}
}

// mayUsePip: pip takes a package from whichever index has the highest version, so that a stranger's could take a
// private one's place.
func (j *job) mayUsePip() error {
	if j.options.Wheels != "" || len(j.options.ExtraIndexURLs) == 0 {
		return nil
	}
	return core.Errorf(core.ErrDependency, "several package indexes need uv, which the image does not have and which could not be fetched").
		WithHint("use an image that has uv, or ask the operator to offer uv in one of the indexes")
}

func (j *job) works(ctx context.Context, argv ...string) bool {
	_, exit, err := j.run(ctx, command{argv: argv, timeout: probeTimeout})
	return err == nil && core.StatusOf(exit) == core.StatusOK
}

// fetchUV puts uv into the cache, once and for all later installs. It is moved there whole, and only
// if it works: other installers may do the same at this moment.
func (j *job) fetchUV(ctx context.Context) (bool, error) {
	j.tell("fetching uv, once")
	if err := j.stageWheels(ctx, []string{"uv"}); err != nil {
		return false, err
	}
	staging := j.cacheDir() + "/staging-" + strings.ToLower(rand.Text()[:12])
	text, fetched := j.downloadUV(ctx, staging)
	if j.moveUV(ctx, staging, fetched) && j.works(ctx, j.cachedUV(), "--version") {
		return true, nil
	}
	if ctx.Err() == nil {
		j.withoutUV.Store(j.now().Add(uvPause).UnixNano())
		j.log.Info("uv could not be fetched", "output", lastLines(text, 3, 500))
	}
	return false, nil
}

// downloadUV asks one index after the other.
func (j *job) downloadUV(ctx context.Context, staging string) (text string, works bool) {
	for _, index := range j.options.Indexes() {
		text, exit, err := j.run(ctx, command{
			argv: j.pip("--only-binary=:all:", "--no-deps", "--target", staging, "uv"), env: j.onlyIndex(index), timeout: fetchUVTimeout,
		})
		if err == nil && core.StatusOf(exit) == core.StatusOK {
			return text, j.works(ctx, staging+"/bin/uv", "--version")
		}
	}
	return text, false
}

// moveUV moves the staging folder to its place if it is wanted there, and removes it else. What is
// in its place already stays.
func (j *job) moveUV(ctx context.Context, staging string, wanted bool) bool {
	const move = `import os, shutil, sys
if sys.argv[3] == "yes":
    try:
        os.rename(sys.argv[1], sys.argv[2])
    except OSError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)`
	answer := "no"
	if wanted {
		answer = "yes"
	}
	_, err := j.python(ctx, move, staging, j.toolsDir(), answer)
	return err == nil && wanted
}
