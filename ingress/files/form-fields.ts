import { validationError } from '../../shared/errors.ts';
import type { ValidationIssue } from '../../shared/validation-issues.ts';
import { shownFieldName } from '../api/shown-text.ts';

/** Validates the parts of an upload form. */
export interface FormFields {
  field(name: string | undefined, value: string): void;
  /** A file part. Only one is allowed; its field name must be `file`, and it must have a file name. */
  file(name: string | undefined, filename: string): void;
  /** Fails with `VALIDATION_ERROR`, which names all errors so far. */
  check(): void;
  /** The same at the end of the form; also names missing parts. */
  end(): void;
}

/** The parts of an upload: `purpose`, which is `batch`, and one `file`, in any order. */
export function createFormFields(): FormFields {
  const issues: ValidationIssue[] = [];
  const seen = new Set<string>();
  const add = (path: string, message: string) => void issues.push({ path, message });

  function addUnknown(name: string | undefined): void {
    if (name === undefined || name === '') add('body', 'has a part without a name');
    else add(shownFieldName(name), 'is not known');
  }

  function see(name: string): boolean {
    if (seen.has(name)) add(name, 'expected once');
    seen.add(name);
    return true;
  }

  function check(): void {
    if (issues.length > 0) throw validationError(issues);
  }

  return {
    field(name, value) {
      if (name === 'file') add(name, 'expected a file with a name');
      else if (name !== 'purpose') addUnknown(name);
      else if (see(name) && value !== 'batch') add(name, 'expected "batch"');
    },
    file(name, filename) {
      if (name === 'purpose') add(name, 'expected text, not a file');
      else if (name !== 'file') addUnknown(name);
      else if (see(name) && filename === '') add(name, 'expected a file with a name');
    },
    check,
    end() {
      for (const name of ['purpose', 'file']) {
        if (!seen.has(name) && !issues.some(({ path }) => path === name)) add(name, 'is required');
      }
      check();
    },
  };
}
