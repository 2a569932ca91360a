package core

import "time"

// The label keys on everything that Boxwright makes in an engine.
const (
	LabelMark     = "boxwright"          // "1"
	LabelInstance = "boxwright.instance" // the installation: one state folder
	LabelServer   = "boxwright.server"   // the server process that made it
	LabelTenant   = "boxwright.tenant"
	LabelPurpose  = "boxwright.purpose"
	LabelExpires  = "boxwright.expires" // RFC 3339, UTC; absent when it never does
)

// Labels travel with a box or volume, so that it can be understood after a crash
// without any other store.
type Labels struct {
	Instance string
	Server   string
	Tenant   string
	Purpose  Purpose
	Expires  time.Time // zero: never
}

// Map returns the labels as an engine stores them.
func (l Labels) Map() map[string]string {
	m := map[string]string{
		LabelMark:     "1",
		LabelInstance: l.Instance,
		LabelServer:   l.Server,
		LabelTenant:   l.Tenant,
		LabelPurpose:  string(l.Purpose),
	}
	if !l.Expires.IsZero() {
		m[LabelExpires] = l.Expires.UTC().Format(time.RFC3339)
	}
	return m
}

// ParseLabels reads an engine's labels; ok is false for things that are not ours.
// An expiry that cannot be read counts as long past, so that nothing lives for ever by a typo.
func ParseLabels(m map[string]string) (l Labels, ok bool) {
	if m[LabelMark] != "1" {
		return Labels{}, false
	}
	l = Labels{
		Instance: m[LabelInstance],
		Server:   m[LabelServer],
		Tenant:   m[LabelTenant],
		Purpose:  Purpose(m[LabelPurpose]),
	}
	if text, has := m[LabelExpires]; has {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			at = time.Unix(0, 0).UTC()
		}
		l.Expires = at
	}
	return l, true
}

// Expired reports whether the thing's time is over.
func (l Labels) Expired(now time.Time) bool { return !l.Expires.IsZero() && now.After(l.Expires) }
