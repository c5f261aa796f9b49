package relay

import (
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// Facts are the settings that a server has reported at its login: its version, its defaults.
// Servers of one group that report the same have the same. They never change.
type Facts struct{ list []Param }

// inHotStandby is the one of them that changes while a server lives, and by nobody's SET: it
// is promoted.
const inHotStandby = "in_hot_standby"

// factsOf returns the facts of a server of a group with these reports.
func (sh *Shared) factsOf(group uint32, status []Param) *Facts {
	if f := sh.facts[group]; f != nil && slices.Equal(f.list, status) {
		return f
	}
	if sh.facts == nil {
		sh.facts = make(map[uint32]*Facts)
	}
	f := &Facts{slices.Clone(status)}
	sh.facts[group] = f
	return f
}

// Facts returns what the server has reported of itself.
func (s *Server) Facts() *Facts { return s.facts }

// Told says which facts the client has heard at its login.
func (c *Client) Told(f *Facts) { c.told = f }

// refresh tells the client what is different on the server that it has got from what it was
// told before: after a failover or an upgrade. What it has set itself is as it was.
func (c *Client) refresh(p *Plan) {
	now := c.server.facts
	if c.told == now || c.told == nil {
		return
	}
	for _, f := range now.list {
		name := strings.ToLower(f.Name)
		_, own := c.want.Get(name)
		if own || name == applicationName || slices.Contains(c.told.list, f) {
			continue
		}
		p.client(p.build(func(dst []byte) []byte { return wire.AppendParameterStatus(dst, f.Name, f.Value) }))
	}
	c.told = now
}

// renew notes a report that is a new fact, and that the client hears it if it is shown.
func (s *Server) renew(name, value string, show bool) {
	if name != inHotStandby {
		return
	}
	list := slices.Clone(s.facts.list)
	i := slices.IndexFunc(list, func(f Param) bool { return f.Name == name })
	if i < 0 || list[i].Value == value {
		return
	}
	list[i].Value = value
	old := s.facts
	s.facts = s.shared.factsOf(s.group, list)
	if c := s.holder(); show && c != nil && c.told == old {
		c.told = s.facts
	}
}
