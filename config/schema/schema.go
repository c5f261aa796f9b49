package schema

import (
	"cmp"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/values"
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
	for _, s := range Kinds() {
		for _, f := range s.Fields {
			f.Table = s.Header()
			f.Admits = f.Type.Admits
			list = append(list, f.Key)
		}
	}
	return list
}

// Field is a key and where its value goes.
type Field struct {
	Key
	Type values.Type
}

// The kinds of sections that have more than keys; the others are called by their name.
const (
	UpstreamKind = "upstream"
	DatabaseKind = "database"
	WorkloadKind = "workload"
	MatchKind    = "workload.match"
	RoleKind     = "role"
	RateKind     = "rate"

	RateMatchKind = "rate.match"
)

// Section is a section of the file with its keys.
type Section struct {
	Kind   string // "upstream", "log"; "" for the top
	Label  string // its full name where it is bound to a configuration: "upstream.main"
	Fields []Field
}

// Header is how the file opens a section of this kind.
func (s Section) Header() string {
	switch s.Kind {
	case "":
		return ""
	case UpstreamKind, DatabaseKind, RoleKind:
		return "[" + s.Kind + ".NAME]"
	case WorkloadKind, RateKind:
		return "[[" + s.Kind + "]]"
	default:
		return "[" + s.Kind + "]"
	}
}

// IsRepeated reports whether a file may have several of the section, or whether it is the
// match of one.
func (s Section) IsRepeated() bool {
	return s.Kind == WorkloadKind || s.Kind == RateKind || s.IsMatch()
}

// IsMatch reports whether the section is the match of another.
func (s Section) IsMatch() bool { return s.Kind == MatchKind || s.Kind == RateMatchKind }

// KeyOf is the full name of a key of the section.
func (s Section) KeyOf(name string) string {
	if s.Label == "" {
		return document.Dotted(name)
	}
	return s.Label + "." + document.Dotted(name)
}

// Kinds are the kinds of sections of a file, bound to one that nobody looks at.
func Kinds() []Section {
	return Sections(&File{
		Upstreams: make([]Upstream, 1), Databases: make([]Database, 1), Workloads: make([]Workload, 1),
		Roles: make([]Role, 1), Rates: make([]Rate, 1),
	})
}

// Sections are all sections of a file with their keys, in the order of a file.
func Sections(f *File) []Section {
	list := []Section{
		{Fields: topFields(f)},
		{Kind: "log", Label: "log", Fields: logFields(&f.Log)},
		{Kind: "tls", Label: "tls", Fields: tlsFields(&f.TLS)},
		{Kind: "auth", Label: "auth", Fields: authFields(&f.Auth)},
		{Kind: "console", Label: "console", Fields: consoleFields(&f.Console)},
	}
	for i := range f.Upstreams {
		u := &f.Upstreams[i]
		list = append(list, Section{UpstreamKind, document.Dotted(UpstreamKind, u.Name), upstreamFields(u)})
	}
	for i := range f.Databases {
		d := &f.Databases[i]
		list = append(list, Section{DatabaseKind, document.Dotted(DatabaseKind, d.Name), databaseFields(d)})
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		label := document.Dotted(WorkloadKind, w.Name)
		list = append(list, Section{WorkloadKind, label, w.Fields()}, Section{MatchKind, label + ".match", MatchFields(&w.Match)})
	}
	for i := range f.Roles {
		r := &f.Roles[i]
		list = append(list, Section{RoleKind, document.Dotted(RoleKind, r.Name), roleFields(r)})
	}
	for i := range f.Rates {
		r := &f.Rates[i]
		label := document.Dotted(RateKind, r.Name)
		list = append(list, Section{RateKind, label, RateFields(r)}, Section{RateMatchKind, label + ".match", RateMatchFields(r)})
	}
	return list
}

// SetDefaults gives every field that has a default its value. dir is where relative paths
// start.
func SetDefaults(fields []Field, dir string) {
	for _, f := range fields {
		if f.Default == "" {
			continue
		}
		if problem := f.Type.Set(values.Value{Node: document.Literal(f.Default), Dir: dir}); problem != nil {
			panic("config: the default of " + f.Name + ": " + problem.Message) // the schema contradicts itself
		}
	}
}

// usual is the value that a key has where nobody writes it, or an example.
func (k Key) usual() string { return cmp.Or(k.Default, k.Example) }
