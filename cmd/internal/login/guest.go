package login

// Guest is a Book with what was found out elsewhere about one user, that the book does not
// have.
type Guest struct {
	*Book
	User   string
	Secret Secret // zero: the user does not exist or may not log in
}

// Lookup returns what is known about a user.
func (g Guest) Lookup(user string) (Secret, bool) {
	if user == g.User {
		return g.Secret, true
	}
	return g.Book.Lookup(user)
}
