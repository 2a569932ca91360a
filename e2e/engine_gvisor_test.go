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

func (g gvisorEngine) removeVolume(name string) error {
	return os.RemoveAll(filepath.Join(g.dir, "volumes", name))
}

// removeImage leaves images to the removal of the whole folder.
func (gvisorEngine) removeImage(*testing.T, string) {}
