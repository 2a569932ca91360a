package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/boxwright/boxwright/core"
)

// Size is a number of bytes, written like "512MiB", "2g", "2GB" or 1048576. All units are
// binary, as container engines read them.
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	lower := strings.ToLower(strings.TrimSpace(string(text)))
	digits := strings.TrimRight(lower, "kmgtib ")
	shift, known := map[string]int{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.TrimSpace(lower[len(digits):])]
	if !known || strings.Trim(digits, "0123456789.") != "" {
		return errors.New("not a size")
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n <= math.MaxInt64>>shift {
		*s = Size(n << shift)
		return nil
	}
	n, err := strconv.ParseFloat(digits, 64)
	n *= float64(int64(1) << shift)
	if err != nil || n >= math.MaxInt64 || n != math.Trunc(n) {
		return errors.New("not a size")
	}
	*s = Size(n)
	return nil
}

// MarshalText writes the size so that UnmarshalText reads it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes the size for a person: "512MiB".
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	return core.FormatBytes(int64(s))
}

// Duration is a time, written like "30s", "5m" or "168h".
type Duration time.Duration

// UnmarshalText reads a time.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// MarshalText writes the time so that UnmarshalText reads it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes the time without zero parts: "168h".
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Std returns the time as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Secret is text that does not print itself. Only Reveal gives it away.
type Secret struct{ text string }

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is nothing to hide.
func (s Secret) IsZero() bool { return s.text == "" }

// String says that there is a secret, or nothing when there is none.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return "[secret]"
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// Format hides the text from every verb.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		text = s.GoString()
	}
	_, _ = io.WriteString(f, text)
}

// MarshalText hides the text from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON hides the text from JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(s.GoString()), nil }

// LogValue hides the text from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// UnmarshalText takes the text.
func (s *Secret) UnmarshalText(text []byte) error {
	s.text = string(text)
	return nil
}
