package core

import "slices"

// Route sends runs to a backend: those that match each of its conditions that is not empty.
type Route struct {
	Image    string // a pattern, as in ImagePolicy
	Language Language
	Backend  string
}

// Validate reports the first thing that keeps the route from ever being right.
func (r Route) Validate(languages []Language) error {
	switch {
	case r.Backend == "":
		return Errorf(ErrInvalid, "it names no backend")
	case r.Image == "" && r.Language == "":
		return Errorf(ErrInvalid, "it has no condition").WithHint("give image or language; backend is for all other runs")
	case r.Language != "" && !slices.Contains(languages, r.Language):
		return Errorf(ErrInvalid, "%q is not a language of runs", r.Language).WithHint("the languages are: %s", languages)
	case r.Image != "":
		return ImagePolicy{r.Image}.Validate()
	}
	return nil
}

// Matches reports whether the route is one for this image in this language. No pattern matches a
// run of which the image is not known yet, which is "". A reference with a digest may be any of its
// repository's tags: it matches a pattern with a tag, or a client could walk around the route.
func (r Route) Matches(image string, language Language) bool {
	if r.Language != "" && r.Language != language {
		return false
	}
	return r.Image == "" || image != "" && mayBe(image, r.Image)
}

func mayBe(image, pattern string) bool {
	normal, err := NormalizeImage(image)
	if err != nil {
		return false
	}
	ref, _ := parseImage(normal)
	p, why := parseImagePattern(pattern)
	if why != "" {
		return false
	}
	if ref.digest != "" && p.digest == "" {
		p.tag = ""
	}
	return ref.matches(p)
}

// Routes are tried in order.
type Routes []Route

// Backend names the backend of the first route that matches, or "".
func (r Routes) Backend(image string, language Language) string {
	for _, route := range r {
		if route.Matches(image, language) {
			return route.Backend
		}
	}
	return ""
}
