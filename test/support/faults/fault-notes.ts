import { appendFileSync, readFileSync } from 'node:fs';
import { z } from 'zod';

const noteSchema = z.strictObject({
  id: z.string(),
  is: z.enum(['begun', 'ok', 'FAILED', 'not run']),
  seen: z.array(z.string()),
  ms: z.number(),
});

/** The state of a fault's test, and its observations so far. */
export type Note = z.infer<typeof noteSchema>;

/** Names the file to which fault tests write their notes. If it is unset, no notes are written. */
export const notesVariable = 'FAULT_NOTES';

/** Appends one complete line, because concurrent test files share the file. */
export function noteFault(note: Note): void {
  const file = process.env[notesVariable];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(note)}\n`);
}

export function readNotes(file: string): Note[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => noteSchema.parse(JSON.parse(line)));
}
