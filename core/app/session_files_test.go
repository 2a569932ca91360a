package app_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
)

func fileAt(path string) core.FileRequest {
	return core.FileRequest{Path: path, Tenant: "local", Client: "c1"}
}

// fileCalls are all use cases on files.
func fileCalls(t *testing.T, s *app.Service) map[string]func(core.FileRequest) error {
	t.Helper()
	return map[string]func(core.FileRequest) error{
		"list":   func(r core.FileRequest) error { _, err := s.ListFiles(t.Context(), r, false); return err },
		"read":   func(r core.FileRequest) error { _, err := s.ReadFile(t.Context(), r, 0, 10, true); return err },
		"write":  func(r core.FileRequest) error { _, err := s.WriteFile(t.Context(), r, []byte("x"), nil); return err },
		"upload": func(r core.FileRequest) error { return s.UploadFile(t.Context(), r, strings.NewReader("x")) },
		"delete": func(r core.FileRequest) error { _, err := s.DeleteFile(t.Context(), r); return err },
	}
}

// TestFilesOfASession: what is written is listed, read and deleted; the first to be written makes the connection's session.
func TestFilesOfASession(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	for name, call := range fileCalls(t, s) {
		if err := call(fileAt("a/b")); name != "write" && (core.KindOf(err) != core.ErrNotFound || core.HintOf(err) == "") {
			t.Errorf("%s before there is a session: %v", name, err)
		}
		w.contents = map[string]string{}
		for _, session := range sessionsOf(t, s) {
			if err := s.StopSession(t.Context(), "local", session); err != nil {
				t.Fatal(err)
			}
		}
	}
	session, err := s.WriteFile(t.Context(), fileAt("a/b"), []byte("01"), nil)
	if err != nil || len(sessionsOf(t, s)) != 1 || sessionsOf(t, s)[0] != session {
		t.Fatalf("wrote to %q: %v", session, err)
	}
	if err := s.UploadFile(t.Context(), fileAt("a/b"), strings.NewReader("0123")); err != nil {
		t.Error(err)
	}
	list, err := s.ListFiles(t.Context(), fileAt("./a/"), true)
	if err != nil || list.Session != session || len(list.Entries) != 1 || list.Entries[0].Path != "a/b" || list.Cut {
		t.Errorf("listed %+v, %v", list, err)
	}
	content, err := s.ReadFile(t.Context(), fileAt("a/b"), 1, 2, true)
	if err != nil || content.Session != session || string(content.Piece.Data) != "12" || content.Piece.Total != 4 || content.Preview != nil {
		t.Errorf("read %+v, %v", content, err)
	}
	if _, err := s.DeleteFile(t.Context(), fileAt("a/b")); err != nil {
		t.Error(err)
	}
	_, err = s.DeleteFile(t.Context(), fileAt("a/b"))
	if core.KindOf(err) != core.ErrNotFound || !strings.Contains(err.Error(), `nothing at "a/b"`) {
		t.Errorf("deleted twice: %v", err)
	}
}

func sessionsOf(t *testing.T, s *app.Service) (ids []string) {
	t.Helper()
	all, err := s.Sessions(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range all {
		ids = append(ids, session.ID)
	}
	return ids
}

// TestFilesAreTheirOwners: neither another's session nor a hostile path is looked at.
func TestFilesAreTheirOwners(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local", Name: "mine"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range fileCalls(t, s) {
		for _, id := range []string{session.ID, "mine"} {
			if err := call(core.FileRequest{Sandbox: id, Path: "a", Tenant: "other", Client: "c1"}); core.KindOf(err) != core.ErrNotFound || !strings.Contains(err.Error(), "no sandbox") {
				t.Errorf("%s of %s: %v", name, id, err)
			}
		}
		for _, path := range []string{"..", "../x", "a/../../x", "/etc/passwd", "a\x00b", "a//b", "/", strings.Repeat("n", 256)} {
			err := call(core.FileRequest{Sandbox: "mine", Path: path, Tenant: "local"})
			if core.KindOf(err) != core.ErrInvalid || strings.Contains(core.MessageOf(err), "\n") {
				t.Errorf("%s of %.20q: %v", name, path, err)
			}
		}
	}
	if len(w.contents) > 0 {
		t.Errorf("written: %q", w.contents)
	}
}

func TestWrittenFilesAreBounded(t *testing.T) {
	s := newWorld().service(t, sessionSettings())
	most := settings().MaxInputBytes
	if _, err := s.WriteFile(t.Context(), fileAt("a"), make([]byte, most), nil); err != nil {
		t.Error(err)
	}
	if _, err := s.WriteFile(t.Context(), fileAt("a"), make([]byte, most+1), nil); core.KindOf(err) != core.ErrInvalid || core.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestImagesAreShown, unless they are none or that is not asked for.
func TestImagesAreShown(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	if _, err := s.WriteFile(t.Context(), fileAt("a.png"), []byte("pixels"), nil); err != nil {
		t.Fatal(err)
	}
	content, err := s.ReadFile(t.Context(), fileAt("a.png"), 0, 10, true)
	if err != nil || content.Preview == nil || string(content.Preview.Data) != "pixels" || content.MIMEType != "image/png" {
		t.Errorf("got %+v, %v", content, err)
	}
	content, err = s.ReadFile(t.Context(), fileAt("a.png"), 0, 10, false)
	if err != nil || content.Preview != nil || string(content.Piece.Data) != "pixels" {
		t.Errorf("its bytes: %+v, %v", content, err)
	}
	w.fail["preview"] = core.Errorf(core.ErrUnsupported, "no image")
	content, err = s.ReadFile(t.Context(), fileAt("a.png"), 0, 10, true)
	if err != nil || content.Preview != nil || string(content.Piece.Data) != "pixels" {
		t.Errorf("no image: %+v, %v", content, err)
	}
}

// TestALongListIsCut, and is not a failure.
func TestALongListIsCut(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	if _, err := s.WriteFile(t.Context(), fileAt("a"), nil, nil); err != nil {
		t.Fatal(err)
	}
	w.fail["list files"] = core.Errorf(core.ErrExhausted, "too many")
	if list, err := s.ListFiles(t.Context(), fileAt("."), false); err != nil || !list.Cut || len(list.Entries) != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

// TestFilesWhileAProgramRuns: they are served at once, and each call keeps the session from being idle.
func TestFilesWhileAProgramRuns(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	running, end := make(chan struct{}), make(chan struct{})
	w.run = func(context.Context, core.RunSpec) (core.Exit, error) {
		close(running)
		<-end
		return core.Exit{}, nil
	}
	ended := make(chan error)
	go func() {
		_, err := s.RunInSession(t.Context(), "", cell("x"), nil)
		ended <- err
	}()
	<-running
	for _, name := range []string{"write", "list", "read", "delete"} {
		if err := fileCalls(t, s)[name](fileAt("a")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	close(end)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFilesRenewASession: one whose files are read is not idle.
func TestFilesRenewASession(t *testing.T) {
	w := newWorld()
	s := w.service(t, sessionSettings())
	session, err := s.WriteFile(t.Context(), fileAt("a"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.mu.Lock()
		w.now = w.now.Add(20 * time.Minute)
		now := w.now
		w.mu.Unlock()
		if _, err := s.ReadFile(t.Context(), fileAt("a"), 0, 10, true); err != nil {
			t.Fatal(err)
		}
		for kept := (core.Session{}); !kept.Used.Equal(now); { // that is kept in the background
			if kept, err = w.sessions.Get(t.Context(), "local", session); err != nil {
				t.Fatal(err)
			}
			if t.Context().Err() != nil {
				t.Fatal("the use was not kept")
			}
		}
	}
}

// TestFilesOfALostBox: the session is over, and that is told once.
func TestFilesOfALostBox(t *testing.T) {
	for name := range fileCalls(t, newWorld().service(t, sessionSettings())) {
		w := newWorld()
		s := w.service(t, sessionSettings())
		session, err := s.OpenSession(t.Context(), core.SessionRequest{Tenant: "local"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		gone := core.Errorf(core.ErrNotFound, "no such box")
		for _, step := range []string{"read", "write", "list files", "connect"} {
			w.fail[step] = gone
		}
		err = fileCalls(t, s)[name](core.FileRequest{Sandbox: session.ID, Path: "a", Tenant: "local"})
		if !errors.Is(err, core.ErrSessionExpired) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
