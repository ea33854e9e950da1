import * as React from 'react';

export default () => {
  return <p>Nothing here</p>;
};
