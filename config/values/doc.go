// Package values has the types of single values of a configuration, such as [Duration] and
// [Share], and reads them from what a file says. "none", "auto" and "0" never mean each
// other, and a [Secret] does not print itself.
//
// A [Type] knows one sort of value and where it goes. It is made with its bounds and a
// target, says in words what it admits, and answers a wrong [Value] with a [Complaint] that
// tells what to write instead. Which keys have which Type is in package schema.
package values
