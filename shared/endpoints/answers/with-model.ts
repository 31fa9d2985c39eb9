/**
 * Returns an answer with the client's name of the model. The rest of its text stays as the backend wrote it, because an answer can have
 * millions of numbers.
 */
export function withModel(
  { text, answer }: { text: string; answer: { model?: string | null | undefined } },
  model: string,
): string {
  if (answer.model === model) return text;
  // A quote inside of a string is escaped, so this is never a part of one.
  const name = JSON.stringify(answer.model ?? '').replace(/[^\w\s]/g, '\\$&');
  const parts = text.split(new RegExp(`"model"\\s*:\\s*${name}`));
  return parts.length === 2 ? parts.join(`"model":${JSON.stringify(model)}`) : JSON.stringify({ ...answer, model });
}
