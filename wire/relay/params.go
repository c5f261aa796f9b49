package relay

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// Param is a setting and its value, as a startup packet or ParameterStatus has
// them. Names are compared without regard to case.
type Param = wire.Param

// Params is a set of settings that differ from a server's defaults. It is
// immutable and shared.
type Params struct {
	kv      []Param // sorted by lower-cased name, each once
	meaning uint64  // hash of all that can change what a statement means
	temp    bool    // tables without a schema may be temporary ones
}

// applicationName is the one setting that never changes a statement's meaning.
const applicationName = "application_name"

// NoParams is the empty set.
func NoParams() *Params { return &Params{} }

// NewParams returns the set of the given settings; of equal names the last
// counts, as in Postgres.
func NewParams(list []Param) *Params {
	kv := make([]Param, 0, len(list))
	for _, p := range list {
		p.Name = strings.ToLower(p.Name)
		kv = slices.DeleteFunc(kv, func(o Param) bool { return o.Name == p.Name })
		kv = append(kv, p)
	}
	slices.SortFunc(kv, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	return finish(kv)
}

func finish(kv []Param) *Params {
	ps := &Params{kv: kv}
	for _, p := range kv {
		if p.Name != applicationName {
			ps.meaning = mix(ps.meaning, p)
		}
		if p.Name == "search_path" {
			ps.temp = strings.Contains(strings.ToLower(p.Value), "pg_temp")
		}
	}
	return ps
}

// meaningSeed makes the hash unpredictable for clients that choose the values.
var meaningSeed = maphash.MakeSeed()

func mix(h uint64, p Param) uint64 {
	return h*31 + maphash.Comparable(meaningSeed, p)
}

// All returns the settings, sorted by lower-cased name. The caller must not
// change them.
func (ps *Params) All() []Param { return ps.kv }

// Meaning identifies the part of the set that can change what a statement
// means: everything but application_name.
func (ps *Params) Meaning() uint64 { return ps.meaning }

func (ps *Params) find(name string) (int, bool) {
	return slices.BinarySearchFunc(ps.kv, name, func(p Param, n string) int { return strings.Compare(p.Name, n) })
}

// Get returns the value of a lower-cased name.
func (ps *Params) Get(name string) (string, bool) {
	if i, ok := ps.find(name); ok {
		return ps.kv[i].Value, true
	}
	return "", false
}

// equal compares two sets by content.
func (ps *Params) equal(o *Params) bool {
	return ps == o || (ps.meaning == o.meaning && slices.Equal(ps.kv, o.kv))
}

// with returns the set with name, lower-cased, at value; without it when the
// value is the default.
func (ps *Params) with(name, value string, isDefault bool) *Params {
	i, ok := ps.find(name)
	switch {
	case ok && !isDefault && ps.kv[i].Value == value, !ok && isDefault:
		return ps
	case isDefault:
		return finish(slices.Delete(slices.Clone(ps.kv), i, i+1))
	case ok:
		kv := slices.Clone(ps.kv)
		kv[i].Value = value
		return finish(kv)
	}
	return finish(slices.Insert(slices.Clone(ps.kv), i, Param{Name: name, Value: value}))
}

// mustWait names the settings after which nothing may follow before they were
// accepted: run under the old value, a statement would act as another role or
// on other tables.
var mustWait = [...]string{"role", "row_security", "search_path", "session_authorization"}

// settings writes the statement that brings a server from the settings it has
// to those wanted, and reports whether the client's bytes may follow without
// waiting: only when this server has accepted every value before.
func settings(have, want *Params, accepted map[Param]struct{}) (sql string, safe bool) {
	var b strings.Builder
	safe = true
	for _, p := range have.kv {
		if v, ok := want.Get(p.Name); ok && (v == p.Value || p.Name != "datestyle") {
			continue // a DateStyle may name a part only: the rest must not be an earlier client's
		}
		if slices.Contains(mustWait[:], p.Name) {
			safe = false
		}
		b.WriteString("RESET ")
		quoteIdent(&b, p.Name)
		b.WriteString(";")
	}
	sets := 0
	for _, p := range want.kv {
		if v, ok := have.Get(p.Name); ok && v == p.Value {
			continue
		}
		if _, ok := accepted[p]; !ok || slices.Contains(mustWait[:], p.Name) {
			safe = false
		}
		if sets == 0 {
			b.WriteString("SELECT ")
		} else {
			b.WriteString(",")
		}
		sets++
		b.WriteString("pg_catalog.set_config(")
		quoteLiteral(&b, p.Name)
		b.WriteString(",")
		quoteLiteral(&b, p.Value)
		b.WriteString(",false)")
	}
	return b.String(), safe
}

// quoteIdent writes a parameter name: parts between dots, each quoted.
func quoteIdent(b *strings.Builder, name string) {
	for i, part := range strings.Split(name, ".") {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteByte('"')
		b.WriteString(strings.ReplaceAll(part, `"`, `""`))
		b.WriteByte('"')
	}
}

// quoteLiteral writes a string that reads the same whatever standard_conforming_strings
// says, and whatever client_encoding an earlier client has left behind: bytes of other
// characters are what they are in the startup packet, those of the database's encoding.
func quoteLiteral(b *strings.Builder, v string) {
	plain := func(r byte) bool { return r != '\\' && r < 0x80 }
	escapes := false
	for i := range len(v) {
		escapes = escapes || !plain(v[i])
	}
	if escapes {
		b.WriteByte('E')
	}
	b.WriteByte('\'')
	for i := range len(v) {
		switch c := v[i]; {
		case c == '\'':
			b.WriteString("''")
		case plain(c):
			b.WriteByte(c)
		case c == '\\':
			b.WriteString(`\\`)
		default:
			fmt.Fprintf(b, `\x%02x`, c)
		}
	}
	b.WriteByte('\'')
}
