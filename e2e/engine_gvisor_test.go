package e2e

func gvisorPlace() *place { return &place{backend: "gvisor", engine: missing("not yet")} }

func rootlessGvisorPlace() *place { return gvisorPlace().asTestUser() }
