const labels = new Set(['role', 'id', 'type', 'call_id', 'status', 'signature', 'encrypted_content']);
const depthMax = 8;

/** What the model wrote in a message or a part of one: every text in it, as content, reasoning or a tool call. */
export function writtenText(value: unknown, depth = 0): string {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null || depth > depthMax) return '';
  const fields: Readonly<Record<string, unknown>> = { ...value };
  let text = '';
  for (const name in fields) if (!labels.has(name)) text += writtenText(fields[name], depth + 1);
  return text;
}
