package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// commandEngine is one with a command as Docker's and Podman's: its name, and arguments that
// always come first.
type commandEngine []string

// run returns the lines of the command's output.
func (c commandEngine) run(t *testing.T, args ...string) []string {
	t.Helper()
	lines, err := c.try(time.Minute, args...)
	for tries := 0; err != nil && strings.Contains(err.Error(), "no such volume") && tries < 10; tries++ {
		lines, err = c.try(time.Minute, args...) // another test's has gone meanwhile
	}
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func (c commandEngine) try(limit time.Duration, args ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c[0], append(append([]string{}, c[1:]...), args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", c[0], strings.Join(args, " "), err, &stderr)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

func (c commandEngine) absence() string {
	if _, err := c.try(20*time.Second, "info"); err != nil {
		return "no engine answers to " + strings.Join(c, " ") + "; hack/docker-up.sh and hack/podman-up.sh start one"
	}
	for _, image := range []string{baseImage, preinstalledImage, busyboxImage, emptyImage, nodeImage} {
		if _, err := c.try(20*time.Second, "image", "inspect", image); err != nil {
			return "there is no image " + image + "; hack/base-image.sh, hack/test-images.sh and hack/share-images.sh make it"
		}
	}
	return ""
}

func (commandEngine) label(instance string) string { return "label=boxwright.instance=" + instance }

func (c commandEngine) boxes(t *testing.T, instance string) []string {
	t.Helper()
	return c.run(t, "ps", "-aq", "--no-trunc", "--filter", "label=boxwright=1", "--filter", c.label(instance))
}

func (c commandEngine) running(t *testing.T, instance, purpose string) []string {
	t.Helper()
	return c.run(t, "ps", "-q", "--no-trunc", "--filter", "label=boxwright.purpose="+purpose, "--filter", c.label(instance))
}

// volumes picks them itself: Podman 4 lists what has any of several labels, and none at all when
// one is removed meanwhile.
func (c commandEngine) volumes(t *testing.T, instance string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names := c.run(t, "volume", "ls", "-q", "--filter", c.label(instance))
	for _, name := range names {
		labels, err := c.try(time.Minute, "volume", "inspect", "--format", "{{json .Labels}}", name)
		if err != nil || len(labels) != 1 {
			continue // it is gone
		}
		var l map[string]string
		if json.Unmarshal([]byte(labels[0]), &l) == nil && l["boxwright.instance"] == instance {
			all[name] = l["boxwright.purpose"]
		}
	}
	return all
}

func (c commandEngine) removeBox(t *testing.T, id string) {
	t.Helper()
	c.run(t, "rm", "-f", id)
}

func (c commandEngine) removeVolume(name string) error {
	_, err := c.try(time.Minute, "volume", "rm", name)
	if err != nil && strings.Contains(err.Error(), "no such volume") {
		return nil
	}
	return err
}

func (c commandEngine) removeImage(t *testing.T, ref string) {
	t.Helper()
	c.run(t, "rmi", "-f", ref)
}
