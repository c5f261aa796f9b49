package integration

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const maxFileLines = 600

// source is one Go file of the module, of whatever build tags.
type source struct {
	path  string // from the module's root
	lines int
	tree  *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources parses every Go file below dir, apart from testdata and hidden directories.
func sources(t *testing.T, fset *token.FileSet, dir string) []source {
	t.Helper()
	var list []source
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != dir &&
			(strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		list = append(list, source{rel, bytes.Count(text, []byte("\n")), tree})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestSourceKeepsTheHouseRules(t *testing.T) {
	fset := token.NewFileSet()
	for _, s := range sources(t, fset, root(t)) {
		for _, problem := range problems(fset, s) {
			t.Error(problem)
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t, token.NewFileSet(), root(t)) {
		dir := filepath.Dir(s.path)
		documented[dir] = documented[dir] || s.tree.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package doc", dir)
		}
	}
}

// problems lists what a file does that it should not.
func problems(fset *token.FileSet, s source) []string {
	var list []string
	complain := func(at token.Pos, format string, args ...any) {
		list = append(list, fmt.Sprintf("%s:%d: ", s.path, fset.Position(at).Line)+fmt.Sprintf(format, args...))
	}
	if s.lines > maxFileLines && !ast.IsGenerated(s.tree) {
		complain(s.tree.Pos(), "%d lines, more than %d", s.lines, maxFileLines)
	}
	for _, decl := range s.tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			complain(f.Pos(), "init runs before anybody asked for it")
		}
		if !s.isTest() {
			for _, name := range undocumented(decl) {
				complain(name.Pos(), "%s is exported and has no doc comment", name.Name)
			}
		}
	}
	if s.isTest() && !strings.HasPrefix(s.path, "integration"+string(filepath.Separator)) {
		for _, call := range sleeps(s.tree) {
			complain(call.Pos(), "a test sleeps instead of waiting for something")
		}
	}
	return list
}

// undocumented lists the exported names of a declaration that have no comment. In a group
// of constants or variables the comment of the group will do.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var list []*ast.Ident
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					list = append(list, s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
						list = append(list, name)
					}
				}
			}
		}
		return list
	}
	return nil
}

// receiver is the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// sleeps finds the uses of time.Sleep.
func sleeps(tree *ast.File) []ast.Node {
	var list []ast.Node
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
				list = append(list, s)
			}
		}
		return true
	})
	return list
}

func TestProblemsAreFound(t *testing.T) {
	for _, c := range []struct{ name, path, text, want string }{
		{"clean", "a/a.go", "package a\n// F does it.\nfunc F() {}\nfunc g() {}\n", ""},
		{"function", "a/a.go", "package a\nfunc F() {}\n", "F is exported"},
		{"method", "a/a.go", "package a\n// T is.\ntype T struct{}\nfunc (t *T) M() {}\n", "M is exported"},
		{"generic method", "a/a.go", "package a\n// T is.\ntype T[K any] struct{}\nfunc (t *T[K]) M() {}\n", "M is exported"},
		{"method of an unexported type", "a/a.go", "package a\ntype t struct{}\nfunc (t) M() {}\n", ""},
		{"type in a documented group", "a/a.go", "package a\n// Both.\ntype (\n\tT int\n)\n", "T is exported"},
		{"constant in a documented group", "a/a.go", "package a\n// Both.\nconst (\n\tA = 1\n\tB = 2\n)\n", ""},
		{"constant", "a/a.go", "package a\nconst A = 1\n", "A is exported"},
		{"init", "a/a.go", "package a\nfunc init() {}\n", "init runs"},
		{"sleep", "a/a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "sleeps"},
		{"sleep in integration", "integration/a_test.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", ""},
		{"exported in a test", "a/a_test.go", "package a\nfunc TestX() {}\n", ""},
		{"long", "a/a.go", "package a\n" + strings.Repeat("\n", maxFileLines), "more than 600"},
		{"long, generated", "a/a.go", "// Code generated by x. DO NOT EDIT.\n\npackage a\n" + strings.Repeat("\n", maxFileLines), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, c.path, c.text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(problems(fset, source{c.path, strings.Count(c.text, "\n"), tree}), "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
