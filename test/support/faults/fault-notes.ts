import { appendFileSync, readFileSync } from 'node:fs';
import { z } from 'zod';

const noteSchema = z.strictObject({
  id: z.string(),
  is: z.enum(['begun', 'ok', 'FAILED', 'not run']),
  seen: z.array(z.string()),
  ms: z.number(),
});

/** How a fault's test stands, and what it has seen until then. */
export type Note = z.infer<typeof noteSchema>;

/** Names the file to which tests of faults say how they stand; unset, nobody asks. */
export const notesVariable = 'FAULT_NOTES';

/** One line, whole: test files that run at the same time share the file. */
export function noteFault(note: Note): void {
  const file = process.env[notesVariable];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(note)}\n`);
}

export function readNotes(file: string): Note[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => noteSchema.parse(JSON.parse(line)));
}
