package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// gvisorEngine is a folder: gVisor has no daemon that could be asked.
type gvisorEngine struct{ dir string }

func gvisorPlace() *place { return gvisorFor(&place{backend: "gvisor"}) }

// rootlessGvisorPlace has no control groups of its own, wherever it is.
func rootlessGvisorPlace() *place {
	p := (&place{backend: "gvisor"}).asTestUser()
	if p.engine != nil {
		return p // there is no such user
	}
	return gvisorFor(p).withoutCgroups()
}

// gvisorFor gives the place a folder of its own with runsc and the images of the tests, which may
// lie where its user cannot read them. The folder is in the way of nothing, and goes with cleanup.
func gvisorFor(p *place) *place {
	runsc, images := os.Getenv("BOXWRIGHT_RUNSC"), os.Getenv("BOXWRIGHT_TEST_IMAGES")
	if runsc == "" || images == "" {
		p.engine = missing("BOXWRIGHT_RUNSC and BOXWRIGHT_TEST_IMAGES are not set; hack/runsc.sh and hack/share-images.sh print them")
		return p
	}
	dir, err := p.furnish(map[string]string{"runsc": runsc, "images.tar": images})
	if err != nil {
		p.engine = missing(err.Error())
		return p
	}
	p.cleanup = func() { _ = os.RemoveAll(dir) }
	archives := map[string]any{}
	for _, image := range []string{baseImage, preinstalledImage, busyboxImage, emptyImage, nodeImage} {
		archives[image] = filepath.Join(dir, "images.tar")
	}
	p.config = map[string]any{
		"backend": "gvisor",
		"backends": map[string]any{"gvisor": map[string]any{"settings": map[string]any{
			"runsc": filepath.Join(dir, "runsc"), "dir": filepath.Join(dir, "state"), "images": archives, "default_image": baseImage,
		}}},
	}
	p.engine = gvisorEngine{filepath.Join(dir, "state")}
	return p
}

// furnish makes a folder with copies of files, and one for state, that the place's user can use.
func (p *place) furnish(files map[string]string) (string, error) {
	dir, err := os.MkdirTemp("", "boxwright-e2e-place-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	for name, from := range files {
		if err := duplicate(from, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil || p.user == nil {
		return dir, err
	}
	uid, _ := strconv.Atoi(p.user.Uid)
	gid, _ := strconv.Atoi(p.user.Gid)
	return dir, os.Chown(state, uid, gid)
}

func (gvisorEngine) absence() string { return "" }

// labelled lists the folders whose record has the instance's label.
func (g gvisorEngine) labelled(instance, kind, record string) map[string]map[string]string {
	found := map[string]map[string]string{}
	records, _ := filepath.Glob(filepath.Join(g.dir, kind, "*", record))
	for _, file := range records {
		var r struct {
			Labels map[string]string `json:"labels"`
		}
		raw, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(raw, &r) == nil && r.Labels["boxwright.instance"] == instance {
			found[filepath.Base(filepath.Dir(file))] = r.Labels
		}
	}
	return found
}

func (g gvisorEngine) boxes(t *testing.T, instance string) []string {
	t.Helper()
	all := []string{}
	for id := range g.labelled(instance, "boxes", "box.json") {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

func (g gvisorEngine) running(t *testing.T, instance, purpose string) []string {
	t.Helper()
	var all []string
	for id, labels := range g.labelled(instance, "boxes", "box.json") {
		if labels["boxwright.purpose"] == purpose && len(processesOf(id)) > 0 {
			all = append(all, id)
		}
	}
	return all
}

// processesOf finds what runs for a box: its id is in the arguments of its sandbox.
func processesOf(box string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file)
		if strings.HasPrefix(string(line), "runsc-") && strings.Contains(string(line), box) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (g gvisorEngine) volumes(t *testing.T, instance string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, labels := range g.labelled(instance, "volumes", "volume.json") {
		all[name] = labels["boxwright.purpose"]
	}
	return all
}

func (g gvisorEngine) removeBox(t *testing.T, id string) {
	t.Helper()
	for _, pid := range processesOf(id) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = os.RemoveAll(filepath.Join(g.dir, "boxes", id))
}

func (g gvisorEngine) removeVolume(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(g.dir, "volumes", name)); err != nil {
		t.Error(err)
	}
}

// removeImage leaves images to the removal of the whole folder.
func (gvisorEngine) removeImage(*testing.T, string) {}
