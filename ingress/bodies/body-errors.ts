import { ApiError } from '../../shared/errors.ts';

export function bodyTooSlow(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'The body did not arrive in time.');
}

export function bodyEndedEarly(): ApiError {
  return new ApiError('VALIDATION_ERROR', 'body: ended before its announced length');
}

export function bodyTooLarge(bytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${bytesMax} bytes.`);
}
