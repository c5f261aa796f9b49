package relay

import (
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// Settings that servers report follow their client by what is reported. The others are known
// from the text of SET, RESET and set_config, once the server says that it is done: they are
// the client's when the transaction has committed, and what is rolled back, also to a
// savepoint, is forgotten. Where the text does not tell, and where it is not sure what has
// come of it, the server is cleaned, and what has come of it is nobody's.

const (
	// maxSettings and maxSettingsBytes bound the settings that follow a client, beside those
	// of its startup packet.
	maxSettings      = 100
	maxSettingsBytes = 16 << 10
)

// settingsOf returns what a text sets that no server reports. known is false if it may set
// more than that for the session.
func settingsOf(st sqltext.Statement, text []byte) (list []sqltext.Setting, known bool) {
	switch st.Kind {
	case sqltext.Set, sqltext.Reset:
		if Reported(st.Name(text)) {
			return nil, true
		}
	}
	if list, known = st.Settings(text); !known {
		return nil, false
	}
	return unreported(list)
}

// unreported takes those out of a list that are followed by what servers report, or end with
// the transaction. known is false if one is pgweir's own: on a server it means nothing.
func unreported(list []sqltext.Setting) (rest []sqltext.Setting, known bool) {
	for _, set := range list {
		switch name := set.Name; {
		case strings.HasPrefix(name, ownPrefix):
			return nil, false
		case Reported(name), name == "seed", strings.HasPrefix(name, "transaction_") && name != "transaction_timeout":
		default:
			rest = append(rest, set)
		}
	}
	return rest, true
}

// owned makes sure that there is a place for what the transaction sets.
func (c *Client) owned() *ownState {
	if c.own == nil {
		c.own = &ownState{}
	}
	return c.own
}

// disown gives that place up between transactions, if nothing of pgweir's own is in it.
func (c *Client) disown() {
	if w := c.own; w != nil {
		w.bounds = nil
		if w.version == 0 && len(w.portals) == 0 {
			c.own = nil
		}
	}
}

// inForce returns the settings of the session as the open transaction has made them: those of
// the client, and those of its server.
func (c *Client) inForce() (want, applied *Params) {
	if w := c.own; w != nil && w.want != nil {
		return w.want, w.applied
	}
	return c.want, c.server.applied
}

// texts identifies the settings that can change what the text of a statement means.
func (c *Client) texts() uint64 {
	if w := c.own; w != nil && w.want != nil {
		return w.want.texts
	}
	return c.want.texts
}

// tooManySettings reports whether these would be more than may follow a client.
func (c *Client) tooManySettings(list []sqltext.Setting) bool {
	if len(list) == 0 {
		return false
	}
	want, _ := c.inForce()
	n, size := len(want.kv), want.size
	for _, set := range list {
		if _, ok := want.find(set.Name); !ok && !set.Reset {
			n++
		}
		size += len(set.Name) + len(set.Value)
	}
	return n > maxSettings+len(c.initial.kv) || size > maxSettingsBytes+c.initial.size
}

var settingsFull = &wire.Error{
	Severity: "ERROR", Code: "53400", Message: "pgweir: too many settings in one session",
	Detail: "reason=settings", Hint: "retry=no; RESET what is not needed, or use SET LOCAL",
}

// changeSettings makes what a statement has set a part of the open transaction.
func (c *Client) changeSettings(list []sqltext.Setting) {
	s, w := c.server, c.owned()
	want, applied := c.inForce()
	for i := range list {
		set := &list[i]
		if !s.follows(set) || c.tooManySettings(list[i:i+1]) {
			s.dirt |= dirtSettings
			continue
		}
		want, applied = c.change(want, applied, set)
	}
	w.want, w.applied = want, applied
}

// follows reports whether a value can be set on another server as it is.
func (s *Server) follows(set *sqltext.Setting) bool {
	for i := range len(set.Value) {
		if set.Value[i] >= 0x80 {
			return s.told("client_encoding") == s.told("server_encoding") // else it was converted
		}
	}
	return true
}

// reports tells whether the server reports a parameter.
func (s *Server) reports(name string) bool {
	for i := range s.status {
		if strings.EqualFold(s.status[i].Name, name) {
			return true
		}
	}
	return false
}

// told returns what the server has reported of a parameter.
func (s *Server) told(name string) string {
	for i := range s.status {
		if strings.EqualFold(s.status[i].Name, name) {
			return s.status[i].Value
		}
	}
	return ""
}

// change returns the settings after one of them was set.
func (c *Client) change(want, applied *Params, set *sqltext.Setting) (*Params, *Params) {
	name := set.Name
	switch {
	case name == resetAll && set.Reset:
		return c.initial.as(want), NoParams().as(applied)
	case name == searchPath && c.server.reports(name):
		return want, applied // reported
	case name == sessionAuthorization:
		want, applied = with(want, applied, role, "", true)
	}
	if !set.Reset {
		return with(want, applied, name, set.Value, false)
	}
	if own, ok := c.initial.Get(name); ok {
		return want.with(name, own, false), applied.with(name, "", true)
	}
	return with(want, applied, name, "", true)
}

// with changes two sets, which stay one if they are.
func with(a, b *Params, name, value string, isDefault bool) (*Params, *Params) {
	changed := a.with(name, value, isDefault)
	if a == b {
		return changed, changed
	}
	return changed, b.with(name, value, isDefault)
}

// as returns the set with the same role and session authorization as another one.
func (ps *Params) as(o *Params) *Params {
	for _, name := range [...]string{sessionAuthorization, role} {
		value, ok := o.Get(name)
		ps = ps.with(name, value, !ok)
	}
	return ps
}

// discardSettings is changeSettings for DISCARD ALL.
func (c *Client) discardSettings() {
	if c.own == nil && c.want == c.initial && len(c.server.applied.kv) == 0 {
		return
	}
	w := c.owned()
	w.want, w.applied = c.initial, NoParams()
}

// endSettings ends the transaction in which settings were changed.
func (c *Client) endSettings(committed bool) {
	w := c.own
	if w.want != nil && committed && c.server != nil {
		c.want, c.server.applied = w.want, w.applied
	}
	w.want, w.applied = nil, nil
}

// setsQuery notes what a Query sets, in e, and returns the flags that are left: what else it
// may do. It must wait for an earlier one that is not answered.
func (c *Client) setsQuery(st sqltext.Statement, text []byte, e *entry) (rest sqltext.Flags, wait bool) {
	rest = st.Flags
	switch {
	case rest&sqltext.Session == 0 || rest&sqltext.Multi != 0:
		return c.stepsQuery(st, text, e)
	case st.Kind == sqltext.Discard:
		return rest &^ sqltext.Session, false // seen by its tag
	}
	list, known := settingsOf(st, text)
	if known {
		rest &^= sqltext.Session
	}
	if len(list) > 0 {
		c.owned()
		e.sets = list
	}
	return rest, false
}

// portalSets is what a portal with a name sets.
type portalSets struct {
	portal string
	list   []sqltext.Setting
}

// maxPortalSets bounds the portals of which that is known.
const maxPortalSets = 16

// bindSets notes what the portal sets that is bound; st may be nil.
func (c *Client) bindSets(portal []byte, st *Statement) {
	var list []sqltext.Setting
	if st != nil {
		list = st.sets
	}
	if len(portal) == 0 {
		c.sets = list
		return
	}
	if w := c.own; w != nil {
		w.bounds = slices.DeleteFunc(w.bounds, func(b portalSets) bool { return b.portal == string(portal) })
	}
	if len(list) == 0 {
		return
	}
	w := c.owned()
	if len(w.bounds) == maxPortalSets {
		c.server.dirt |= dirtSettings
		return
	}
	w.bounds = append(w.bounds, portalSets{string(portal), list})
}

// takeSets returns what the portal sets that is run, once.
func (c *Client) takeSets(body []byte) (list []sqltext.Setting) {
	if len(c.sets) > 0 && len(body) > 0 && body[0] == 0 {
		list, c.sets = c.sets, nil
		c.owned()
	} else if w := c.own; w != nil && len(w.bounds) > 0 {
		portal, _, _ := cstring(body)
		if i := slices.IndexFunc(w.bounds, func(b portalSets) bool { return b.portal == string(portal) }); i >= 0 {
			list = w.bounds[i].list
			w.bounds = slices.Delete(w.bounds, i, i+1)
		}
	}
	return list
}
