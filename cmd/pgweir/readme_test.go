package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/config/schema"
)

// What the README says about keys is what the schema says: pgweir check --reference.
func TestREADMEHasTheReference(t *testing.T) {
	const mark = "<!-- reference -->"
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), mark)
	if len(parts) == 1 {
		t.Skipf("the README has no %s", mark)
	}
	if len(parts) != 3 {
		t.Fatalf("the README has %s %d times, want 2", mark, len(parts)-1)
	}
	if diff := cmp.Diff(schema.Reference(), strings.TrimLeft(parts[1], "\n")); diff != "" {
		t.Errorf("the README differs from pgweir check --reference (-want +got):\n%s", diff)
	}
	if r := pgweir(t, nil, "check", "--reference"); r.code != exitOK || r.stdout != schema.Reference() {
		t.Errorf("%+v", r)
	}
}
