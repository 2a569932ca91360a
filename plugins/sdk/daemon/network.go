package daemon

// LinkLocalReached is the warning of a backend whose engine gives a network to the boxes that packages are installed in.
// An engine's API has no word for what such a box must not reach: routes and filters need rights over the network that a
// box must not have, or root's on the engine's machine.
const LinkLocalReached = "the boxes that packages are installed in reach link-local addresses, where clouds keep credentials (169.254.169.254, fe80::), " +
	"and the host's own: this engine cannot bar them, the host's firewall can"
