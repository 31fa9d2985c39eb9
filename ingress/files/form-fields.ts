import { validationError } from '../../shared/errors.ts';
import type { ValidationIssue } from '../../shared/validation-issues.ts';

/** What an upload has beside its file. */
export interface FormFields {
  field(name: string | undefined, value: string): void;
  /** A file under any name; only one called `file` may be there, and it has to have a name of its own. */
  file(name: string | undefined, filename: string): void;
  /** `VALIDATION_ERROR` naming everything that is wrong so far. */
  check(): void;
  /** The same, once nothing more comes: also what is missing. */
  end(): void;
}

/** Longer than any name that we know; one that we do not is the client's word. */
const nameLengthMax = 32;

/** Of an upload: `purpose`, which is `batch`, and one `file`, in any order. */
export function createFormFields(): FormFields {
  const faults: ValidationIssue[] = [];
  const seen = new Set<string>();
  const add = (path: string, message: string) => void faults.push({ path, message });

  function addUnknown(name: string | undefined): void {
    if (name === undefined || name === '') add('body', 'has a part without a name');
    else add(name.length > nameLengthMax ? `${name.slice(0, nameLengthMax)}…` : name, 'is not known');
  }

  function see(name: string): boolean {
    if (seen.has(name)) add(name, 'expected once');
    seen.add(name);
    return true;
  }

  function check(): void {
    if (faults.length > 0) throw validationError(faults);
  }

  return {
    field(name, value) {
      if (name === 'file') add(name, 'expected a file with a name');
      else if (name !== 'purpose') addUnknown(name);
      else if (see(name) && value !== 'batch') add(name, 'expected "batch"');
    },
    file(name, filename) {
      if (name === 'purpose') add(name, 'expected text and no file');
      else if (name !== 'file') addUnknown(name);
      else if (see(name) && filename === '') add(name, 'expected a file with a name');
    },
    check,
    end() {
      for (const name of ['purpose', 'file']) {
        if (!seen.has(name) && !faults.some(({ path }) => path === name)) add(name, 'is required');
      }
      check();
    },
  };
}
