package relay

import (
	"fmt"
	"strings"
)

// settings writes the statement that brings a server from the settings it has
// to those wanted, and reports whether the client's bytes may follow without
// waiting: only when this server has accepted every value before.
func settings(have, want *Params, accepted map[Param]struct{}) (sql string, safe bool) {
	var b strings.Builder
	safe = true
	switch distance(have, want) {
	case farAll:
		b.WriteString("SET SESSION AUTHORIZATION DEFAULT;RESET ALL;")
		have, safe = NoParams(), false
	case farRole:
		b.WriteString("SET SESSION AUTHORIZATION DEFAULT;")
		if _, ok := have.Get(role); ok {
			b.WriteString(`RESET "role";`)
		}
		have, safe = have.with(role, "", true).with(sessionAuthorization, "", true), false
	}
	for _, p := range have.kv {
		if v, ok := want.Get(p.Name); ok && (v == p.Value || p.Name != "datestyle") {
			continue // a DateStyle may name a part only: the rest must not be an earlier client's
		}
		if mustWait(p.Name) {
			safe = false
		}
		b.WriteString("RESET ")
		quoteIdent(&b, p.Name)
		b.WriteString(";")
	}
	sets := 0
	for _, p := range want.kv {
		if have.has(p) {
			continue
		}
		if _, ok := accepted[p]; !ok || mustWait(p.Name) || want.acting && !anybodys(p.Name) {
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

// How much of a server's settings is taken back before those wanted are set.
type far uint8

const (
	near    far = iota // what is not wanted
	farRole            // as whom it acts: the right to set the rest may be the login's
	farAll             // everything: not every role may take back, one by one, what is not wanted
)

func distance(have, want *Params) far {
	special := false // as whom it acts is to change, or what not everybody may set
	for _, p := range have.kv {
		if _, ok := want.Get(p.Name); !ok {
			if !anybodys(p.Name) {
				return farAll
			}
			special = special || acts(p.Name)
		}
	}
	for _, p := range want.kv {
		special = special || !have.has(p) && (acts(p.Name) || !anybodys(p.Name))
	}
	if special && have.acting {
		return farRole
	}
	return near
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
