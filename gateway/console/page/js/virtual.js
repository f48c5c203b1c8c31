/** A list of any length: only its visible rows are in the document, and all of them while it is printed. */

import { h } from "./dom.js";

const OVERSCAN = 10;
let lists = 0;
const listOf = new WeakMap();

addEventListener("beforeprint", () => drawLists(true));
addEventListener("afterprint", () => drawLists(false));

function drawLists(isPrinting) {
  for (const element of document.querySelectorAll(".virtual")) listOf.get(element).drawForPrint(isPrinting);
}

/**
 * A listbox. `row(item)` returns the children of a row. `onSelect(item)` is called when a row is selected, `onOpen(item)`
 * for Enter or a click on it, `onMark(item)` for a click on its part with `data-mark`. `--row` is the height of a row.
 */
export class VirtualList {
  constructor({ label, row, onSelect = () => {}, onOpen = () => {}, onMark = null }) {
    this.row = row;
    this.onSelect = onSelect;
    this.onOpen = onOpen;
    this.onMark = onMark;
    this.items = [];
    this.selected = -1;
    this.rows = new Map();
    this.name = `list-${(lists += 1)}`;
    this.spacer = h("div", { class: "virtual-spacer", role: "presentation" });
    this.element = h(
      "div",
      {
        class: "virtual",
        role: "listbox",
        tabindex: "0",
        "aria-label": label,
        onkeydown: (event) => this.onKey(event),
      },
      this.spacer,
    );
    this.element.addEventListener("scroll", () => this.scheduleDraw(), { passive: true });
    this.element.addEventListener("click", (event) => this.onClick(event));
    new ResizeObserver(() => this.measure()).observe(this.element);
    this.isPrinting = false;
    listOf.set(this.element, this);
  }

  /** Shows these items; the row with the same key (`key(item)`) stays chosen. */
  show(items, key = (item) => item) {
    const chosen = this.items[this.selected];
    this.items = items;
    this.selected = chosen === undefined ? -1 : items.findIndex((item) => key(item) === key(chosen));
    this.clear();
    if (this.element.isConnected) this.measure();
  }

  /** Draws all rows, or again only the visible ones. */
  drawForPrint(isPrinting) {
    this.isPrinting = isPrinting;
    this.refresh();
  }

  /** Draws the rows again after a change of their content. */
  refresh() {
    this.clear();
    this.draw();
  }

  move(by) {
    if (this.items.length) this.select(Math.min(Math.max(this.selected + by, 0), this.items.length - 1));
  }

  select(index) {
    this.selected = index;
    this.reveal(index);
    this.draw();
    if (this.items[index] !== undefined) this.onSelect(this.items[index]);
  }

  open() {
    if (this.items[this.selected] !== undefined) this.onOpen(this.items[this.selected]);
  }

  reveal(index) {
    if (!this.height) this.measure();
    const { scrollTop, clientHeight } = this.element;
    const top = index * this.height;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.height > scrollTop + clientHeight) this.element.scrollTop = top + this.height - clientHeight;
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(steps[event.key]);
    else if (event.key === "Enter") this.open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  onClick(event) {
    const row = event.target.closest("[role=option]");
    if (!row) return;
    this.select(Number(row.dataset.index));
    if (this.onMark && event.target.closest("[data-mark]")) this.onMark(this.items[this.selected]);
    else this.open();
  }

  /** Draws the rows that are in sight now, and all of them again if rows have another height. */
  measure() {
    const height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 36;
    if (height !== this.height) this.clear();
    this.height = height;
    this.spacer.style.height = `${this.items.length * this.height}px`;
    this.draw();
  }

  scheduleDraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
    });
  }

  clear() {
    this.rows.clear();
    this.spacer.replaceChildren();
  }

  draw() {
    const [from, to] = this.isPrinting ? [0, this.items.length] : this.findVisible();
    for (const [index, row] of this.rows) {
      if (index < from || index >= to) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = from; index < to; index += 1) if (!this.rows.has(index)) this.add(index);
    this.markSelected();
  }

  /** Returns the range of the rows that are in sight, and a few more. */
  findVisible() {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(0, Math.floor(scrollTop / this.height) - OVERSCAN);
    const to = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.height) + OVERSCAN);
    return [from, to];
  }

  add(index) {
    const props = {
      id: `${this.name}-${index}`,
      class: "virtual-row",
      role: "option",
      "data-index": index,
      "aria-setsize": this.items.length,
      "aria-posinset": index + 1,
      style: { transform: `translateY(${index * this.height}px)` },
    };
    const row = h("div", props, this.row(this.items[index], index));
    this.rows.set(index, row);
    this.spacer.append(row);
  }

  markSelected() {
    for (const [index, row] of this.rows) row.setAttribute("aria-selected", String(index === this.selected));
    if (this.rows.has(this.selected))
      this.element.setAttribute("aria-activedescendant", `${this.name}-${this.selected}`);
    else this.element.removeAttribute("aria-activedescendant");
  }
}
