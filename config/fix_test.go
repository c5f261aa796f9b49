package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// Who writes what a problem proposes must not get the next problem for it.
func TestProposedValuesAreAccepted(t *testing.T) {
	proposal := regexp.MustCompile(`^Write ([a-z_]+) = (\S+)\.$`)
	found := 0
	for _, file := range files(t, ".bad.toml") {
		_, problems := ParseEnv(file, read1(t, file), testEnv)
		for _, p := range problems {
			m := proposal.FindStringSubmatch(p.Fix)
			if m == nil || strings.Contains(m[2], "PASSWORD") || m[1] == "upstream" {
				continue
			}
			found++
			accept(t, file, m[1], document.Literal(m[2]))
		}
	}
	if found < 20 {
		t.Errorf("only %d proposals were tried", found)
	}
}

// Every kind of wrong value of every key: what is proposed for it is accepted.
func TestProposalsForEveryKey(t *testing.T) {
	wrong := []string{
		`0`, `-1`, `15`, `1_000`, `99999999`, `999999999999999`, `1.5`, `true`, `1979-05-27`, `[]`, `[1]`, `""`, `"0"`, `"0s"`,
		`"15"`, `"99999999"`, `"none"`, `"auto"`, `"off"`, `"5 s"`, `"1ns"`, `"9999h"`, `"64MB"`, `"64kB"`, `"1"`, `"999999GB"`,
		`"1B"`, `"4GiB"`, `"INFO"`, `"Trust"`, `"DISABLE"`, `"*:6432"`, `"postgres://db"`,
	}
	tried := 0
	for _, s := range schema.Kinds() {
		for _, f := range s.Fields {
			for _, text := range wrong {
				for c := f.Type.Set(values.Value{Node: document.Literal(text), Dir: "."}); c != nil; c = c.Also {
					if c.Fix != "" {
						tried++
						accept(t, text, f.Name, document.Literal(c.Fix))
					}
				}
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d proposals were tried", tried)
	}
}

// accept gives a value to the key of that name.
func accept(t *testing.T, where, name string, n document.Node) {
	t.Helper()
	if n.Kind == document.Nothing {
		t.Errorf("%s: the proposal for %s is not TOML", where, name)
		return
	}
	for _, s := range schema.Kinds() {
		for _, f := range s.Fields {
			if f.Name != name {
				continue
			}
			if c := f.Type.Set(values.Value{Node: n, Dir: "."}); c != nil {
				t.Errorf("%s: %s = %s is proposed, and refused: %s", where, name, n.Text, c.Message)
			}
		}
	}
}
