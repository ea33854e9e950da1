import * as React from 'react';
import { Page } from './Page';

export enum Tab {
  INPUT = 0,
  LOGS = 1,
}

interface WidgetState {
  selected: string;
}

class WidgetDetails extends Page<{}, WidgetState> {
  private _name = 'widget';

  public render(): JSX.Element {
    return (
      <div>
        <section key="0" title="Section number 0">
          <Value name="field-0" onClick={() => this.select('0')} />
        </section>
        <section key="1" title="Section number 1">
          <Value name="field-1" onClick={() => this.select('1')} />
        </section>
        <section key="2" title="Section number 2">
          <Value name="field-2" onClick={() => this.select('2')} />
        </section>
        <section key="3" title="Section number 3">
          <Value name="field-3" onClick={() => this.select('3')} />
        </section>
        <section key="4" title="Section number 4">
          <Value name="field-4" onClick={() => this.select('4')} />
        </section>
        <section key="5" title="Section number 5">
          <Value name="field-5" onClick={() => this.select('5')} />
        </section>
        <section key="6" title="Section number 6">
          <Value name="field-6" onClick={() => this.select('6')} />
        </section>
        <section key="7" title="Section number 7">
          <Value name="field-7" onClick={() => this.select('7')} />
        </section>
        <section key="8" title="Section number 8">
          <Value name="field-8" onClick={() => this.select('8')} />
        </section>
        <section key="9" title="Section number 9">
          <Value name="field-9" onClick={() => this.select('9')} />
        </section>
        <section key="10" title="Section number 10">
          <Value name="field-10" onClick={() => this.select('10')} />
        </section>
        <section key="11" title="Section number 11">
          <Value name="field-11" onClick={() => this.select('11')} />
        </section>
        <section key="12" title="Section number 12">
          <Value name="field-12" onClick={() => this.select('12')} />
        </section>
        <section key="13" title="Section number 13">
          <Value name="field-13" onClick={() => this.select('13')} />
        </section>
        <section key="14" title="Section number 14">
          <Value name="field-14" onClick={() => this.select('14')} />
        </section>
        <section key="15" title="Section number 15">
          <Value name="field-15" onClick={() => this.select('15')} />
        </section>
        <section key="16" title="Section number 16">
          <Value name="field-16" onClick={() => this.select('16')} />
        </section>
        <section key="17" title="Section number 17">
          <Value name="field-17" onClick={() => this.select('17')} />
        </section>
        <section key="18" title="Section number 18">
          <Value name="field-18" onClick={() => this.select('18')} />
        </section>
        <section key="19" title="Section number 19">
          <Value name="field-19" onClick={() => this.select('19')} />
        </section>
        <section key="20" title="Section number 20">
          <Value name="field-20" onClick={() => this.select('20')} />
        </section>
        <section key="21" title="Section number 21">
          <Value name="field-21" onClick={() => this.select('21')} />
        </section>
        <section key="22" title="Section number 22">
          <Value name="field-22" onClick={() => this.select('22')} />
        </section>
        <section key="23" title="Section number 23">
          <Value name="field-23" onClick={() => this.select('23')} />
        </section>
        <section key="24" title="Section number 24">
          <Value name="field-24" onClick={() => this.select('24')} />
        </section>
        <section key="25" title="Section number 25">
          <Value name="field-25" onClick={() => this.select('25')} />
        </section>
        <section key="26" title="Section number 26">
          <Value name="field-26" onClick={() => this.select('26')} />
        </section>
        <section key="27" title="Section number 27">
          <Value name="field-27" onClick={() => this.select('27')} />
        </section>
        <section key="28" title="Section number 28">
          <Value name="field-28" onClick={() => this.select('28')} />
        </section>
        <section key="29" title="Section number 29">
          <Value name="field-29" onClick={() => this.select('29')} />
        </section>
        <section key="30" title="Section number 30">
          <Value name="field-30" onClick={() => this.select('30')} />
        </section>
        <section key="31" title="Section number 31">
          <Value name="field-31" onClick={() => this.select('31')} />
        </section>
        <section key="32" title="Section number 32">
          <Value name="field-32" onClick={() => this.select('32')} />
        </section>
        <section key="33" title="Section number 33">
          <Value name="field-33" onClick={() => this.select('33')} />
        </section>
        <section key="34" title="Section number 34">
          <Value name="field-34" onClick={() => this.select('34')} />
        </section>
        <section key="35" title="Section number 35">
          <Value name="field-35" onClick={() => this.select('35')} />
        </section>
        <section key="36" title="Section number 36">
          <Value name="field-36" onClick={() => this.select('36')} />
        </section>
        <section key="37" title="Section number 37">
          <Value name="field-37" onClick={() => this.select('37')} />
        </section>
        <section key="38" title="Section number 38">
          <Value name="field-38" onClick={() => this.select('38')} />
        </section>
        <section key="39" title="Section number 39">
          <Value name="field-39" onClick={() => this.select('39')} />
        </section>
      </div>
    );
  }

  public select = async (id: string): Promise<void> => {
    await this.load(id);
  };

  private async load(id: string): Promise<void> {
    this.setState({ selected: id });
  }
}

const Progress: React.FC<{ value: number }> = ({ value }) => {
  return <div>{value}%</div>;
};

const EnhancedWidgetDetails: React.FC = (props) => {
  return <WidgetDetails {...props} />;
};

export default EnhancedWidgetDetails;
