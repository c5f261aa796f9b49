package sim

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutationSeeds = flag.String("mutation-seeds", "20000", "the most seeds that each planted bug is given")

// mutation is a bug planted into a source file: one text replaced by another.
type mutation struct{ name, file, old, new string }

// TestMutationsAreCaught plants each bug of testdata/mutations.txt in turn and
// expects the simulation to find it. The sources stay as they are: the compiler
// is given a changed copy.
func TestMutationsAreCaught(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range readMutations(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out := plant(t, root, m)
			seed := regexp.MustCompile(`seed (\d+):`).FindStringSubmatch(out)
			if seed == nil {
				t.Fatalf("not caught in %s seeds, or does not compile:\n%s", *mutationSeeds, tail(out, 2000))
			}
			t.Logf("caught by seed %s", seed[1])
		})
	}
}

// readMutations reads blocks of a name, a file, and the texts between lines of
// three dashes.
func readMutations(t *testing.T) (list []mutation) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "mutations.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(b), "\n====\n") {
		parts := strings.SplitN(strings.Trim(block, "\n"), "\n---\n", 3)
		if len(parts) != 3 {
			t.Fatalf("malformed block:\n%s", block)
		}
		head := strings.SplitN(parts[0], "\n", 2)
		if len(head) != 2 {
			t.Fatalf("a block begins with its name and its file:\n%s", block)
		}
		list = append(list, mutation{head[0], head[1], parts[1], parts[2]})
	}
	return list
}

// plant runs the simulation with the bug in place and returns what it said.
func plant(t *testing.T, root string, m mutation) string {
	t.Helper()
	source := filepath.Join(root, m.file)
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.old); n != 1 {
		t.Fatalf("the text to replace stands %d times in %s", n, m.file)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(b), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	j, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, j, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-run", "^TestSeeds$", ".", "-seeds", *mutationSeeds)
	out, _ := cmd.CombinedOutput() // it is to fail
	return string(out)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
