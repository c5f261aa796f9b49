package config

import (
	"cmp"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Key documents one key of the file.
type Key struct {
	Table   string // its header: "" for the top, "[log]", "[upstream.NAME]", "[[workload]]"
	Name    string
	Default string // as the file would write it; "" where there is none
	Example string // where there is no default
	Unit    string // of a bare number; "" where the value carries its own
	Admits  string // the values, in words
	Doc     string // what it does, in sentences
	Restart bool   // a reload does not apply it
}

// Keys are all keys of this version in the order in which a file would have them. They are
// what the defaults and the reference in the README are made of.
func Keys() []Key {
	var list []Key
	for _, s := range sections() {
		for _, f := range s.fields {
			f.Table = s.header()
			f.Admits = f.kind.admits
			list = append(list, f.Key)
		}
	}
	return list
}

// field is a key and where its value goes.
type field struct {
	Key
	kind kind
}

// section kinds that have more than keys.
const (
	upstreamKind = "upstream"
	databaseKind = "database"
	workloadKind = "workload"
	matchKind    = "workload.match"
	roleKind     = "role"
	rateKind     = "rate"

	rateMatchKind = "rate.match"
)

// sectionKeys is a section of the file with its keys.
type sectionKeys struct {
	kind   string // "upstream", "log"; "" for the top
	label  string // its full name where it is bound to a configuration: "upstream.main"
	fields []field
}

// header is how the file opens a section of this kind.
func (s sectionKeys) header() string {
	switch s.kind {
	case "":
		return ""
	case upstreamKind, databaseKind, roleKind:
		return "[" + s.kind + ".NAME]"
	case workloadKind, rateKind:
		return "[[" + s.kind + "]]"
	default:
		return "[" + s.kind + "]"
	}
}

// isRepeated reports whether a file may have several of the section, or whether it is the
// match of one.
func (s sectionKeys) isRepeated() bool {
	return s.kind == workloadKind || s.kind == rateKind || s.isMatch()
}

// isMatch reports whether the section is the match of another.
func (s sectionKeys) isMatch() bool { return s.kind == matchKind || s.kind == rateMatchKind }

// keyOf is the full name of a key of the section.
func (s sectionKeys) keyOf(name string) string {
	if s.label == "" {
		return dotted(name)
	}
	return s.label + "." + dotted(name)
}

// sections are the kinds of sections of a file, bound to a configuration that nobody looks
// at.
func sections() []sectionKeys {
	return (&Config{
		Upstreams: make([]Upstream, 1), Databases: make([]Database, 1), Workloads: make([]Workload, 1),
		Roles: make([]Role, 1), Rates: make([]Rate, 1),
	}).sections()
}

// sections are all sections of c with their keys, in the order of a file.
func (c *Config) sections() []sectionKeys {
	list := []sectionKeys{
		{fields: topFields(c)},
		{kind: "log", label: "log", fields: logFields(&c.Log)},
		{kind: "tls", label: "tls", fields: tlsFields(&c.TLS)},
		{kind: "auth", label: "auth", fields: authFields(&c.Auth)},
		{kind: "console", label: "console", fields: consoleFields(&c.Console)},
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		list = append(list, sectionKeys{upstreamKind, dotted(upstreamKind, u.Name), upstreamFields(u)})
	}
	for i := range c.Databases {
		d := &c.Databases[i]
		list = append(list, sectionKeys{databaseKind, dotted(databaseKind, d.Name), databaseFields(d)})
	}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		label := dotted(workloadKind, w.Name)
		list = append(list, sectionKeys{workloadKind, label, w.fields()}, sectionKeys{matchKind, label + ".match", matchFields(&w.Match)})
	}
	for i := range c.Roles {
		r := &c.Roles[i]
		list = append(list, sectionKeys{roleKind, dotted(roleKind, r.Name), roleFields(r)})
	}
	for i := range c.Rates {
		r := &c.Rates[i]
		label := dotted(rateKind, r.Name)
		list = append(list, sectionKeys{rateKind, label, rateFields(r)}, sectionKeys{rateMatchKind, label + ".match", rateMatchFields(r)})
	}
	return list
}

// defaults gives every field that has a default its value. dir is where relative paths
// start.
func defaults(fields []field, dir string) {
	for _, f := range fields {
		if f.Default == "" {
			continue
		}
		if problem := f.kind.set(value{node: literal(f.Default), dir: dir}); problem != nil {
			panic("config: the default of " + f.Name + ": " + problem.message) // the schema contradicts itself
		}
	}
}

// literalKey is the key that literal gives a value. No section is called so.
const literalKey = "x"

// literal is a right-hand side as a value; of no kind if it is none.
func literal(text string) node {
	doc := parse([]byte(literalKey + " = " + text))
	if len(doc.sections) != 1 || len(doc.sections[0].entries) != 1 {
		return node{kind: unstable.Invalid}
	}
	return doc.sections[0].entries[0].value
}

// usual is the value that a key has where nobody writes it, or an example.
func (k Key) usual() string { return cmp.Or(k.Default, k.Example) }
