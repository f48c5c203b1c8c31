/** The HTTP API as the gateway's OpenAPI document describes it; each operation can be called from here. */

import { getJson } from "../api.js";
import { fillElement, h } from "../dom.js";
import { renderChip, renderHead } from "../parts.js";
import { session } from "../session.js";
import { loadPart } from "../states.js";
import { t } from "../texts.js";

const DOCUMENT = "/openapi.json";
const MAX_DEPTH = 4;
const JSON_TYPE = "application/json";
const IDEMPOTENCY_KEY = "Idempotency-Key";

export const formatTitle = () => "HTTP API";

export function openPage({ signal }) {
  const body = h("div", { class: "scroll" });
  loadPart(
    body,
    signal,
    () => getJson(DOCUMENT, {}, signal),
    (document) => new ApiPages(document, signal).renderGroups(),
  );
  return [renderHead("HTTP API", h("span", { class: "mono" }, DOCUMENT)), body];
}

class ApiPages {
  constructor(document, signal) {
    Object.assign(this, { document, signal });
  }

  renderGroups() {
    const groups = new Map();
    for (const [path, operations] of Object.entries(this.document.paths))
      for (const [verb, operation] of Object.entries(operations)) {
        const tag = operation.tags?.[0] ?? "other";
        groups.set(tag, [...(groups.get(tag) ?? []), this.renderOperation(verb.toUpperCase(), path, operation)]);
      }
    return [...groups].map(([tag, operations]) => [h("h2", null, tag), operations]);
  }

  /** One operation; its form is built when it is opened. */
  renderOperation(verb, path, operation) {
    const container = h("div", null);
    const summary = h(
      "summary",
      { class: "card-head" },
      renderChip(verb),
      h("span", { class: "mono" }, path),
      h("span", { class: "muted" }, operation.summary ?? ""),
    );
    const details = h("details", { class: "card" }, summary, container);
    details.addEventListener(
      "toggle",
      () => container.hasChildNodes() || fillElement(container, this.renderForm(verb, path, operation)),
      {
        signal: this.signal,
      },
    );
    return details;
  }

  renderForm(verb, path, operation) {
    const inputs = (operation.parameters ?? []).map((parameter) => [parameter, createInput(parameter)]);
    const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
    const body = content && this.renderBody(type, content, operation);
    const output = h("pre", { class: "mono text", role: "status", tabindex: "0" });
    const form = h(
      "form",
      null,
      h("p", { class: "text" }, operation.description ?? ""),
      inputs.map(([parameter, field]) =>
        h("label", { class: "field" }, `${parameter.name} (${parameter.in})`, field, parameter.description ?? ""),
      ),
      body && h("label", { class: "field" }, t("api.body", { type }), body),
      content && type === JSON_TYPE && this.renderFields(t("api.fields_of_the_body"), content.schema),
      this.renderResponses(operation),
      h("div", { class: "actions" }, h("button", { class: "primary" }, t("api.send_request"))),
      output,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(verb, path, inputs, type, body, output);
    });
    return form;
  }

  renderBody(type, content, operation) {
    if (type !== JSON_TYPE) return h("input", { type: "file" });
    const example =
      content.example ?? Object.values(content.examples ?? {})[0]?.value ?? this.createExample(content.schema);
    const text = JSON.stringify(example, null, 2);
    const rows = Math.min(Math.max(text.split("\n").length, 3), 24);
    return h("textarea", { class: "mono", rows, spellcheck: "false", value: text, "data-of": operation.operationId });
  }

  renderResponses({ responses }) {
    const schema = Object.values(responses["200"]?.content ?? {})[0]?.schema;
    return (
      schema && this.renderFields(t("api.fields_of_the_response"), schema.properties?.data?.contentSchema ?? schema)
    );
  }

  resolveSchema(schema) {
    const reference = schema?.$ref;
    return reference ? this.document.components.schemas[reference.split("/").pop()] : (schema ?? {});
  }

  /** A value of a schema with the fields that a request must have, or all fields where none is required. */
  createExample(reference, depth = 0) {
    const schema = this.resolveSchema(reference);
    if (schema.examples) return schema.examples[0];
    if (schema.enum) return schema.enum[1] ?? schema.enum[0];
    if (schema.type === "array") return depth < MAX_DEPTH ? [this.createExample(schema.items, depth + 1)] : [];
    if (schema.type === "object") {
      const names = schema.required ?? (depth ? [] : Object.keys(schema.properties ?? {}));
      return Object.fromEntries(names.map((name) => [name, this.createExample(schema.properties[name], depth + 1)]));
    }
    if (schema.format === "date-time") return new Date().toISOString();
    return { boolean: false, integer: 0, number: 0 }[schema.type] ?? "";
  }

  /** The fields of a schema; those of a field that is an object are listed when it is opened. */
  renderFields(name, reference) {
    const schema = this.resolveSchema(reference?.items ?? reference);
    const container = h("div", null);
    const details = h("details", { class: "more" }, h("summary", null, name), container);
    details.addEventListener(
      "toggle",
      () => container.hasChildNodes() || fillElement(container, this.renderList(schema)),
      {
        signal: this.signal,
      },
    );
    return details;
  }

  renderList(schema) {
    const entries = Object.entries(schema.properties ?? {});
    if (!entries.length) return h("p", { class: "muted" }, t("api.no_fields"));
    return h(
      "ul",
      null,
      entries.map(([name, field]) => {
        const inner = this.resolveSchema(field.items ?? field);
        const required = schema.required?.includes(name) ? t("api.required") : "";
        const kind = `${field.items ? t("api.list_of") : ""}${inner.enum ? inner.enum.join(" | ") : (inner.type ?? "any")}`;
        return h(
          "li",
          null,
          h("span", { class: "mono" }, name),
          h("span", { class: "muted" }, ` ${kind}${required}. `),
          field.description ?? "",
          inner.properties ? this.renderFields(t("api.fields_of", { name }), inner) : null,
        );
      }),
    );
  }

  async send(verb, path, inputs, type, body, output) {
    const headers = { ...session.headers(), ...(body ? { "Content-Type": type } : {}) };
    const query = new URLSearchParams();
    let url = path;
    for (const [{ name, in: location, schema }, field] of inputs) {
      if (location === "path") url = url.replace(`{${name}}`, encodeURIComponent(field.value));
      else if (field.value && location === "header") headers[name] = field.value;
      else if (field.value && schema.type === "array")
        for (const value of field.value.split(",")) query.append(name, value.trim());
      else if (field.value) query.append(name, field.value);
    }
    const content = body && (body.type === "file" ? body.files[0] : body.value);
    const init = { method: verb, headers, body: content, signal: this.signal, credentials: "omit", cache: "no-store" };
    fillElement(output, t("api.sent_no_response_yet"));
    try {
      const response = await fetch(`${url}${query.size ? `?${query}` : ""}`, init);
      fillElement(output, `${response.status} ${response.statusText}\n`);
      if (response.ok) replaceIdempotencyKey(inputs);
      const isJson = response.headers.get("content-type")?.includes("json");
      if (isJson) output.append(JSON.stringify(await response.json(), null, 2));
      else for await (const text of response.body.pipeThrough(new TextDecoderStream())) output.append(text);
    } catch (error) {
      if (!this.signal.aborted) fillElement(output, t("api.the_request_failed", { message: error.message }));
    }
  }
}

/** Sets another key after a change was made, because the next one is another change. */
function replaceIdempotencyKey(inputs) {
  for (const [{ name }, field] of inputs) if (name === IDEMPOTENCY_KEY) field.value = crypto.randomUUID();
}

function createInput({ name, in: location, required, schema }) {
  const value = name === IDEMPOTENCY_KEY ? crypto.randomUUID() : "";
  if (!schema.enum) return h("input", { required, value, spellcheck: "false", autocomplete: "off", name });
  const options = schema.enum.map((option) => h("option", { value: option }, option));
  return h("select", { name }, required || location === "path" ? null : h("option", { value: "" }, "—"), options);
}
