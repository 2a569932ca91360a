package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/ports/execution"
)

// place is a backend in use, with what belongs to it alone.
type place struct {
	name    string
	backend execution.Backend
	log     *slog.Logger

	asking flights[core.Info]

	mu   sync.Mutex
	info *core.Info // as it told when its limits held
	last core.Image // that a box was made of
}

// places are the backends in use, by name.
type places struct {
	mu  sync.Mutex
	all map[string]*place
}

// place returns the backend of that name, and starts it if it was not used before.
func (s *Service) place(name string) (*place, error) {
	backend, err := s.ports.Backends.Get(name)
	if err != nil {
		return nil, err
	}
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	if p := s.places.all[name]; p != nil {
		return p, nil
	}
	p := &place{name: name, backend: backend, log: s.ports.Log}
	s.places.all[name] = p
	s.boxes.look() // a crashed server may have left something there
	return p, nil
}

// pick returns the backend for a job.
func (s *Service) pick(ctx context.Context, j job) (*place, error) {
	name, err := s.settings.pickBackend(j.asked, cmp.Or(j.image, j.fallback), cmp.Or(j.language, core.LanguagePython))
	if err == nil && name == "" {
		name, err = s.ports.Backends.Default(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.place(name)
}

// pickBackend names the backend for an image, or "" for the default. A route is the operator's word:
// a client may choose only where none applies. Without an image it answers as far as it can: once the
// chosen backend has named its own, it has to be asked again.
func (s Settings) pickBackend(asked, image string, language core.Language) (string, error) {
	if asked != "" && !slices.Contains(s.Choices, asked) {
		return "", core.Errorf(core.ErrInvalid, "there is no backend %.60q", asked).WithHint("%s", s.choicesHint())
	}
	if image == "" {
		image = s.DefaultImage
	}
	routed := s.Routes.Backend(image, language)
	switch {
	case routed == "":
		return asked, nil
	case asked != "" && asked != routed:
		return "", core.Errorf(core.ErrDenied, "this program does not run on %s: the operator sends such programs to %s", asked, routed).
			WithHint("leave backend out")
	}
	return routed, nil
}

func (s Settings) choicesHint() string {
	if len(s.Choices) == 0 {
		return "leave backend out"
	}
	return "the backends are: " + strings.Join(s.Choices, ", ")
}

// madeOf notes an image that is there.
func (p *place) madeOf(image core.Image) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = image
}

func (p *place) lastImage() core.Image {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// told returns what the backend says of itself, once all limits hold that have to. Calls that come together ask
// once: an engine may take a while to tell.
func (p *place) told(ctx context.Context, policy core.Unenforced) (core.Info, error) {
	p.mu.Lock()
	known := p.info
	p.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	return p.asking.do(ctx, p.name, nil, func(ctx context.Context, _ func(core.Progress)) (info core.Info, err error) {
		err = safely(p.log, "asked a backend about itself", func() error {
			info, err = p.ask(ctx, policy)
			return err
		})
		return info, err
	})
}

func (p *place) ask(ctx context.Context, policy core.Unenforced) (core.Info, error) {
	info, err := p.backend.Info(ctx)
	if err != nil {
		return core.Info{}, err
	}
	if err := checkHeld(info, policy); err != nil {
		return core.Info{}, core.Errorf(core.KindOf(err), "backend %s: %s", p.name, core.MessageOf(err)).WithHint("%s", core.HintOf(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = &info
	return info, nil
}
