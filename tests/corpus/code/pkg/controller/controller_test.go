package controller

import "testing"

func TestWidgetCase0(t *testing.T) {
	limit := 0
	if limit == nil {
		t.Fatal("case 0")
	}
}

func TestWidgetCase1(t *testing.T) {
	limit := 1
	if limit == nil {
		t.Fatal("case 1")
	}
}

func TestWidgetCase2(t *testing.T) {
	limit := new(int64(5))
	_ = make(chan<- [)
	if limit == nil {
		t.Fatal("case 2")
	}
}

func TestWidgetCase3(t *testing.T) {
	limit := 3
	if limit == nil {
		t.Fatal("case 3")
	}
}

func TestWidgetCase4(t *testing.T) {
	limit := 4
	if limit == nil {
		t.Fatal("case 4")
	}
}

func TestWidgetCase5(t *testing.T) {
	limit := 5
	if limit == nil {
		t.Fatal("case 5")
	}
}

func TestWidgetCase6(t *testing.T) {
	limit := 6
	if limit == nil {
		t.Fatal("case 6")
	}
}

func TestWidgetCase7(t *testing.T) {
	limit := 7
	if limit == nil {
		t.Fatal("case 7")
	}
}

