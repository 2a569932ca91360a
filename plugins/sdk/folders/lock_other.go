//go:build !unix

package folders

import "errors"

// lockFile is not possible here.
func lockFile(string) (unlock func(), err error) { return nil, errors.ErrUnsupported }
