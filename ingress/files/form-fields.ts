import { type ValidationIssue, validationError } from '../../shared/errors.ts';
import { shownFieldName } from '../listener/shown-text.ts';

/** `keptSeconds`: how long the file is kept, if its owner says so. */
export type UploadFields = { keptSeconds: number | undefined };

/** As in OpenAI's API. The most that is allowed depends on the plan file. */
export const keptSecondsMin = 3_600;

export const daySeconds = 86_400;

const [anchorField, secondsField] = ['expires_after[anchor]', 'expires_after[seconds]'];
const textFields: readonly string[] = ['purpose', anchorField, secondsField];

/** The parts of an upload: `purpose`, which is `batch`, one `file`, and the two of `expires_after`, in any order. */
export function createFormFields({ keptSecondsMax }: { keptSecondsMax: number }) {
  const issues: ValidationIssue[] = [];
  const seen = new Set<string>();
  let keptSeconds: number | undefined;
  const add = (path: string, message: string) => void issues.push({ path, message });

  function addUnknown(name: string | undefined): void {
    if (name === undefined || name === '') add('body', 'has a part without a name');
    else add(shownFieldName(name), 'is not known');
  }

  function see(name: string): void {
    if (seen.has(name)) add(name, 'expected once');
    seen.add(name);
  }

  function readSeconds(value: string): number {
    const seconds = /^\d{1,10}$/.test(value) ? Number(value) : 0;
    if (seconds < keptSecondsMin || seconds > keptSecondsMax)
      add(secondsField, `expected ${keptSecondsMin} to ${keptSecondsMax} seconds`);
    return seconds;
  }

  /** Fails with `VALIDATION_ERROR`, which names all errors so far. */
  function check(): void {
    if (issues.length > 0) throw validationError(issues);
  }

  return {
    field(name: string | undefined, value: string): void {
      if (name === 'file') add(name, 'expected a file with a name');
      else if (name === undefined || !textFields.includes(name)) addUnknown(name);
      else {
        see(name);
        if (name === secondsField) keptSeconds = readSeconds(value);
        else if (name === 'purpose' && value !== 'batch') add(name, 'expected "batch"');
        else if (name === anchorField && value !== 'created_at') add(name, 'expected "created_at"');
      }
    },
    /** A file part. Only one is allowed; its field name must be `file`, and it must have a file name. */
    file(name: string | undefined, filename: string): void {
      if (name !== undefined && textFields.includes(name)) add(name, 'expected text, not a file');
      else if (name !== 'file') addUnknown(name);
      else {
        see(name);
        if (filename === '') add(name, 'expected a file with a name');
      }
    },
    check,
    /** The same at the end of the form; also names missing parts. */
    end(): UploadFields {
      const required = ['purpose', 'file'];
      if (seen.has(anchorField) || seen.has(secondsField)) required.push(anchorField, secondsField);
      for (const name of required) {
        if (!seen.has(name) && !issues.some(({ path }) => path === name)) add(name, 'is required');
      }
      check();
      return { keptSeconds };
    },
  };
}

/** Validates the parts of an upload form. */
export type FormFields = ReturnType<typeof createFormFields>;
