package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/integration/pgtest"
)

func TestConfigurationOfPgweirIsValid(t *testing.T) {
	dir := t.TempDir()
	files := pgweirFiles(&site{port: 6432, upstream: pgtest.Endpoint{Host: "127.0.0.1", Port: 5432}, dir: dir, cert: "x", key: "y", verifier: "z"})
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, problems := config.LoadEnv(filepath.Join(dir, "pgweir.toml"), func(string) string { return "" }); len(problems) > 0 {
		t.Errorf("%v in\n%s", problems, files["pgweir.toml"])
	}
}

// Each contender gets both ports, and files only where it may read them.
func TestConfigurationsNameBothPorts(t *testing.T) {
	for _, k := range kinds() {
		if k.files == nil {
			continue
		}
		files := k.files(&site{port: 21001, upstream: pgtest.Endpoint{Host: "127.0.0.1", Port: 21002}, dir: "/some/dir"})
		text := files[k.config]
		for _, port := range []string{"21001", "21002"} {
			if !strings.Contains(text, port) {
				t.Errorf("%s: %s is not in its configuration:\n%s", k.name, port, text)
			}
		}
		if args := k.args("/some/dir/" + k.config); args[len(args)-1] != "/some/dir/"+k.config {
			t.Errorf("%s: started as %v", k.name, args)
		}
	}
}
