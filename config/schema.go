package config

import "github.com/pelletier/go-toml/v2/unstable"

// Key documents one key of the file.
type Key struct {
	Table   string // its header: "" for the top, "[log]", "[upstream.NAME]", "[[workload]]"
	Name    string
	Default string // as the file would write it; "" where there is none
	Example string // where there is no default
	Unit    string // of a bare number; "" where the value carries its own
	Admits  string // the values, in words
	Doc     string // what it does, in sentences
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

// sectionKeys is a section of the file with its keys.
type sectionKeys struct {
	name   string
	named  bool // [upstream.NAME]
	array  bool // [[workload]]
	fields []field
}

// header is how the file opens the section.
func (s sectionKeys) header() string {
	switch {
	case s.name == "":
		return ""
	case s.named:
		return "[" + s.name + ".NAME]"
	case s.array:
		return "[[" + s.name + "]]"
	default:
		return "[" + s.name + "]"
	}
}

// sections are the sections of a file, bound to a configuration that nobody looks at.
func sections() []sectionKeys {
	c := Config{Workloads: make([]Workload, 1)}
	return []sectionKeys{
		{fields: topFields(&c)},
		{name: "log", fields: logFields(&c.Log)},
		{name: "tls", fields: tlsFields(&c.TLS)},
		{name: "auth", fields: authFields(&c.Auth)},
		{name: "upstream", named: true, fields: upstreamFields(&Upstream{})},
		{name: "database", named: true, fields: databaseFields(&Database{})},
		{name: "workload", array: true, fields: workloadFields(&c.Workloads[0])},
	}
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

// literal is a right-hand side as a value.
func literal(text string) node {
	doc := parse([]byte("x = " + text))
	if len(doc.sections[0].entries) != 1 {
		return node{kind: unstable.Invalid}
	}
	return doc.sections[0].entries[0].value
}
