package values

// Nearest is the candidate that a misspelt word most likely meant, or "" if none is near.
func Nearest[T ~string](word string, candidates []T) T {
	if len(word) > 64 {
		return ""
	}
	best, least := T(""), len(word)/3+2 // more changes than a third of the word are another word
	for _, c := range candidates {
		if d := distance(word, string(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance counts the letters that have to be inserted, deleted, replaced or swapped with
// their neighbour to get from a to b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
