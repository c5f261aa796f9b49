package wiretest

import (
	"maps"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// values maps lower-case parameter names to values. A published map is never
// written again, so that a savepoint costs a pointer.
type values map[string]string

func (v values) with(name, value string) values {
	out := make(values, len(v)+1)
	maps.Copy(out, v)
	out[name] = value
	return out
}

func (v values) without(name string) values {
	if _, ok := v[name]; !ok {
		return v
	}
	out := maps.Clone(v)
	delete(out, name)
	return out
}

// settings are the parameters of a session: the defaults from its start, what
// SET laid over them, and what SET LOCAL laid over that.
type settings struct {
	start    values // from the start-up packet, immutable
	session  values
	local    values
	custom   map[string]bool   // names with a point that were ever set: they stay known
	reported map[string]string // last ParameterStatus
	dirty    bool              // something may differ from reported
}

func newSettings(start map[string]string) settings {
	s := settings{start: values{}, custom: map[string]bool{}, reported: map[string]string{}}
	for name, value := range start {
		name = strings.ToLower(name)
		if g := findGUC(name); g != nil {
			if v, err := g.check(g, value, g.boot); err == nil {
				value = v
			}
		}
		s.start[name] = value
	}
	for _, name := range tracked() {
		s.reported[name] = s.get(name)
	}
	return s
}

// base returns the value that RESET brings back.
func (s *settings) base(name string) string {
	if v, ok := s.start[name]; ok {
		return v
	}
	if g := findGUC(name); g != nil {
		return g.boot
	}
	return ""
}

func (s *settings) get(name string) string {
	if v, ok := s.local[name]; ok {
		return v
	}
	if v, ok := s.session[name]; ok {
		return v
	}
	return s.base(name)
}

// known says whether SHOW would find the parameter.
func (s *settings) known(name string) bool {
	if _, ok := s.start[name]; ok {
		return true
	}
	return findGUC(name) != nil || s.custom[name]
}

// set changes a parameter; a nil value resets it. It returns the canonical
// value. Some errors quote the name as it was typed.
func (s *settings) set(typed string, value *string, local bool) (string, *wire.Error) {
	name := strings.ToLower(typed)
	g := findGUC(name)
	if g == nil && !strings.Contains(name, ".") {
		return "", unknownSetting(typed)
	}
	v := s.base(name)
	if value != nil {
		v = *value
		if g != nil {
			var err *wire.Error
			g.typed = typed
			if v, err = g.check(g, v, s.get(name)); err != nil {
				return "", err
			}
		}
	}
	if g == nil {
		s.custom[name] = true
	}
	s.dirty = true
	if local {
		s.local = s.local.with(name, v)
		return v, nil
	}
	s.local = s.local.without(name)
	s.session = s.session.with(name, v)
	return v, nil
}

func (s *settings) resetAll() {
	s.session, s.local, s.dirty = nil, nil, true
}

// all returns every known parameter with its value.
func (s *settings) all() map[string]string {
	out := map[string]string{}
	for _, name := range append(tracked(), others()...) {
		out[name] = s.get(name)
	}
	for name := range s.custom {
		out[name] = s.get(name)
	}
	return out
}

// appendChanged appends ParameterStatus for what differs from the last report.
func (s *settings) appendChanged(dst []byte) []byte {
	if !s.dirty {
		return dst
	}
	s.dirty = false
	for _, name := range tracked() {
		if v := s.get(name); v != s.reported[name] {
			s.reported[name] = v
			dst = wire.AppendParameterStatus(dst, findGUC(name).name, v)
		}
	}
	return dst
}

func unknownSetting(name string) *wire.Error {
	return newError("42704", "unrecognized configuration parameter \"%s\"", name)
}
