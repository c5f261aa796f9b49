package document

import "slices"

// TableKey is a key of a [[section]] whose value may be a table, which a file can write in
// three ways: key = { ... }, key.name = ..., and [section.key].
type TableKey struct {
	Section string
	Key     string
}

// isTableValue reports whether a table at a path is the value of a key, rather than a
// section. A path of one part is what [Literal] reads.
func (t *tree) isTableValue(path []string) bool {
	return len(path) == 1 && path[0] == literalKey ||
		len(path) == 2 && slices.Contains(t.tables, TableKey{path[0], path[1]})
}

// gather turns the other two ways into the first: one key, whose value is a table.
func (doc *Document) gather(k TableKey) {
	var sections []Section
	head := -1
	for _, s := range doc.Sections {
		if slices.Equal(s.Path, []string{k.Section, k.Key}) && !s.Element && head >= 0 {
			sections[head].addTable(k.Key, s.At, s.Entries)
			continue
		}
		sections = append(sections, s)
		if s.Element && slices.Equal(s.Path, []string{k.Section}) {
			head = len(sections) - 1
			sections[head].join(k.Key)
		}
	}
	doc.Sections = sections
}

// join gathers the dotted keys of a section.
func (s *Section) join(key string) {
	isPart := func(e Entry) bool { return len(e.Path) > 1 && e.Path[0] == key }
	if !slices.ContainsFunc(s.Entries, isPart) {
		return
	}
	var parts, others []Entry
	for _, e := range s.Entries {
		if isPart(e) {
			e.Path = e.Path[1:]
			parts = append(parts, e)
		} else {
			others = append(others, e)
		}
	}
	s.Entries = others
	s.addTable(key, parts[0].Key, parts)
}

// addTable adds a key with a table.
func (s *Section) addTable(key string, at Span, entries []Entry) {
	table := Node{Kind: Table, At: at}
	for _, e := range entries {
		table.Names = append(table.Names, Name{Dotted(e.Path...), e.Key})
		table.Items = append(table.Items, e.Value)
	}
	s.Entries = append(s.Entries, Entry{Path: []string{key}, Key: at, Value: table})
}
