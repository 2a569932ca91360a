// Package fault keeps a mistake of the agent's from being the end of its box: the agent is the first process there,
// and whatever the box holds would go with it.
package fault

import (
	"fmt"

	"github.com/boxwright/boxwright/core"
)

// Contain turns a panic into an error of what was being done.
func Contain(do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = core.Errorf(core.ErrInternal, "the agent failed: %s", fmt.Sprint(fault))
		}
	}()
	return do()
}
